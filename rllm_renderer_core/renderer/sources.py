"""Digests of the sources that a backend renders with: versions alone can't tell two commits of a repository apart.

Nothing is imported for them: the first part of a package's name is looked up, which runs no code, and the rest is a folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LENGTH = 16
"""Hexadecimal digits of a digest: 64 bits tell apart what people install."""


class SourceDigests(Mapping[str, str]):
    """``source_digests`` of the same arguments, taken when first asked for; copied and pickled as the plain mapping.

    Only pins, and records that go to another process, need them; those of a compiled package first take 0.15 s.
    """

    def __init__(self, distributions: Iterable[str], packages: Mapping[str, str]) -> None:
        self._of = tuple(distributions), packages

    @functools.cached_property
    def _found(self) -> dict[str, str]:
        return source_digests(*self._of)

    def __getitem__(self, name: str) -> str:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._found,)

    def __repr__(self) -> str:
        return repr(self._found)


def source_digests(distributions: Iterable[str], packages: Mapping[str, str]) -> dict[str, str]:
    """A digest of all files of each distribution's renderers, by its name; without those whose folder isn't found.

    Args:
        distributions: Names, such as ``"tinker-cookbook"``.
        packages: The package that has the renderers, dotted, by distribution; where there is none it is the distribution's
            name with underscores.
    """
    found = {name: _folder(packages.get(name) or name.replace("-", "_")) for name in distributions}
    return {name: _digest(folder, _files(folder)) for name, folder in found.items() if folder is not None}


def _folder(package: str) -> Path | None:
    first, *rest = package.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):  # hidden, or imported without a spec
        return None
    places = () if spec is None else spec.submodule_search_locations or ()
    return next((folder for place in places if (folder := Path(place, *rest)).is_dir()), None)


def _files(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of each file, which are the key of the cache."""
    out = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if not name.endswith((".pyc", ".pyo")):
                file = os.path.join(place, name)
                try:
                    stat = os.stat(file)
                except OSError:
                    continue
                out.append((os.path.relpath(file, folder), stat.st_size, stat.st_mtime_ns))
    return tuple(out)


@functools.lru_cache(maxsize=32)
def _digest(folder: Path, files: tuple[tuple[str, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for name, _, _ in files:
        try:
            content = (folder / name).read_bytes()
        except OSError:
            content = b""
        whole.update(f"{Path(name).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:LENGTH]
