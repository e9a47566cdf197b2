"""Distributions that are installed for the length of a ``with`` block: real metadata, real modules, real ``sys.path``."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

GROUP = "rllm_renderer"


@contextmanager
def fake_distribution(
    path: str | os.PathLike[str],
    name: str,
    version: str = "1.0",
    *,
    entry_points: Mapping[str, str] | None = None,
    modules: Mapping[str, str] | None = None,
    requires: Iterable[str] = (),
    group: str = GROUP,
) -> Iterator[Path]:
    """Write ``name`` into the folder ``path`` as an installer would, and put that folder on ``sys.path``.

    Afterwards the files are gone, ``sys.path`` is as before, and what was imported from the folder is forgotten. Distributions
    may share a folder.

    Args:
        path: A folder; made where it isn't there.
        name: The distribution's name, as in ``pip install name``.
        version: Its version.
        entry_points: Names of plugins to what they load: ``{"mymodel": "my_module"}``.
        modules: Dotted names of modules to their source.
        requires: Requirements, as in ``dependencies`` of a pyproject.toml.
        group: The group of the entry points.

    Yields:
        The ``*.dist-info`` folder.
    """
    root = Path(path).resolve()
    written = [_write(root / file, text) for file, text in _module_files(modules or {}).items()]
    info = root / f"{name.replace('-', '_')}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    _write(info / "METADATA", "\n".join(lines) + "\n")
    lines = [f"[{group}]", *(f"{key} = {value}" for key, value in (entry_points or {}).items())]
    _write(info / "entry_points.txt", "\n".join(lines) + "\n")
    _write(info / "RECORD", "".join(f"{file.relative_to(root)},,\n" for file in [*written, *info.iterdir()]))
    added = str(root) not in sys.path
    if added:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    try:
        yield info
    finally:
        if added and str(root) in sys.path:
            sys.path.remove(str(root))
        shutil.rmtree(info, ignore_errors=True)
        _forget(written)
        importlib.invalidate_caches()


def _module_files(modules: Mapping[str, str]) -> dict[str, str]:
    """Paths of source files; a name that others are inside of is a package, and so is each parent."""
    parents = {module.rsplit(".", depth)[0] for module in modules for depth in range(1, module.count(".") + 1)}
    sources = {**dict.fromkeys(sorted(parents), ""), **modules}
    return {f"{name.replace('.', '/')}{'/__init__' if name in parents else ''}.py": source for name, source in sources.items()}


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _forget(files: Iterable[Path]) -> None:
    """Delete source files with their bytecode, and the modules that came from them."""
    gone = set(files)
    names = {file.name for file in gone}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and os.path.basename(file) in names and Path(file).resolve() in gone:  # by a symlink too
            del sys.modules[name]
    for file in gone:
        file.unlink(missing_ok=True)
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
