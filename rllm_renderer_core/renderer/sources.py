"""Digests of the sources that a backend renders with: versions alone can't tell two commits of a repository apart.

Nothing is imported for them: the first part of a package's name is looked up, which runs no code, and the rest is a folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections import UserDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LENGTH = 16
"""Hexadecimal digits of a digest: 64 bits tell apart what people install."""


class SourceDigests(UserDict[str, str]):
    """A digest of all files of each distribution's renderers, by its name; without those whose folder isn't found.

    Taken when first asked for, as only pins and records that go to another process need them and those of a compiled package
    take 0.15 s; copied and pickled as the plain mapping.
    """

    def __init__(self, packages: Iterable[tuple[str, str]]) -> None:
        self._packages = packages

    @functools.cached_property
    def data(self) -> dict[str, str]:  # type: ignore[override]
        folders = {distribution: _folder(package) for distribution, package in self._packages}
        return {distribution: _digest(folder) for distribution, folder in folders.items() if folder is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.data,)


@functools.lru_cache(maxsize=64)
def source_digests(packages: tuple[tuple[str, str], ...]) -> SourceDigests:
    """The same object each time for the same distributions, each with the package that has its renderers, dotted."""
    return SourceDigests(packages)


def _folder(package: str) -> Path | None:
    first, *rest = package.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):  # hidden, or imported without a spec
        return None
    places = () if spec is None else spec.submodule_search_locations or ()
    return next((folder for place in places if (folder := Path(place, *rest)).is_dir()), None)


def _digest(folder: Path) -> str:
    """Of the names and contents of all files but bytecode."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix not in (".pyc", ".pyo"):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:LENGTH]
