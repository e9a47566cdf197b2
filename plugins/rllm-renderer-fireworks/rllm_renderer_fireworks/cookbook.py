"""Where the Fireworks cookbook is and which renderers it has, found out without importing it.

Its package is called ``training``, as many a user's own is, so a package of that name is believed by its files: renderers in
``training/renderer`` that are registered with tinker_cookbook; or by the metadata of the cookbook's distribution. Neither
imports anything: ``find_spec("training")`` runs no code, where ``find_spec("training.renderer")`` would run a stranger's.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import importlib_metadata

from rllm_renderer_core.plugin import Unavailable

PACKAGE = "training"
RENDERERS = "training.renderer"
DISTRIBUTION = "fireworks-training-cookbook"
COMMIT = "76821fa1ded720d903029381b37d3c3ea7ce9ddd"
"""The commit that was tested."""

REQUIREMENT = f"{DISTRIBUTION} @ git+https://github.com/fw-ai/cookbook@{COMMIT}#subdirectory=training"
"""The line of ``requirements-cookbook.txt``."""

REQUIREMENTS = Path(__file__).with_name("requirements-cookbook.txt")
"""The file for ``pip install -r``; ``python -m rllm_renderer_fireworks`` prints where it is."""

INSTALL = f'pip install "{REQUIREMENT}"'

_REGISTERS = re.compile(r"""\bregister_renderer\(\s*["']([\w./-]+)["']""")


class State(Enum):
    """What there is, as far as files tell. Whether it can be imported shows when it is: see ``activation``."""

    ABSENT = "absent"
    FOREIGN = "foreign"
    PRESENT = "present"


@dataclass(frozen=True)
class Cookbook:
    """What was found.

    Attributes:
        state: See ``State``.
        place: The file or folder of the package ``training``; empty where there is none.
        names: Names under which its sources register renderers.
        hidden: Whether the cookbook's distribution is installed although this isn't its package.
    """

    state: State
    place: str = ""
    names: frozenset[str] = frozenset()
    hidden: bool = False

    def lacks(self, renderer: str) -> Unavailable | None:
        """Why a renderer of this name can't be had here, with what to do; ``None`` where it can."""
        if self.state is State.ABSENT:
            return Unavailable("the Fireworks cookbook isn't installed", INSTALL)
        if self.state is State.FOREIGN:
            hides = ", and it hides the cookbook, which is installed" if self.hidden else ""
            fix = f"rename that package or take its folder off sys.path{'' if self.hidden else f'; then {INSTALL}'}"
            return Unavailable(f"the package 'training' at {self.place} isn't the Fireworks cookbook's{hides}", fix)
        if importlib.util.find_spec("tinker_cookbook") is None:
            return Unavailable(
                "the Fireworks cookbook needs tinker-cookbook, which isn't installed", "pip install tinker-cookbook"
            )
        if renderer not in self.names:
            return Unavailable(
                f"the Fireworks cookbook at {self.place} has no renderer {renderer!r}: it is too old, or too new",
                f"{INSTALL} --force-reinstall",
            )
        return None


def find() -> Cookbook:
    """The cookbook, a stranger of its name, or nothing; imports none of them."""
    places = _places()
    installed = _distribution_folder()
    if not places:
        return Cookbook(State.ABSENT)
    for place in places:
        names = _registered(place)
        if names or (installed is not None and place == installed):
            return Cookbook(State.PRESENT, str(place), names)
    return Cookbook(State.FOREIGN, str(places[0]), hidden=installed is not None)


def _places() -> list[Path]:
    """Folders of the package ``training`` (several for a namespace package), or the file of a module of that name."""
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except ValueError:  # it is imported, and without a spec
        module = sys.modules[PACKAGE]
        return [Path(place) for place in getattr(module, "__path__", None) or [getattr(module, "__file__", None) or "?"]]
    if spec is None:
        return []
    return [Path(place) for place in spec.submodule_search_locations or [spec.origin or "?"]]


def _distribution_folder() -> Path | None:
    try:
        return Path(str(importlib_metadata.distribution(DISTRIBUTION).locate_file(PACKAGE)))
    except importlib_metadata.PackageNotFoundError:
        return None


def _registered(place: Path) -> frozenset[str]:
    """Names that the sources in ``renderer/`` register; empty where this isn't the cookbook."""
    folder = place / "renderer"
    try:
        files = sorted(folder.glob("*.py"))
        stamp = max((file.stat().st_mtime_ns for file in files), default=0)
    except OSError:
        return frozenset()
    return _names_in(folder, len(files), stamp) if folder / "__init__.py" in files else frozenset()


@functools.lru_cache(maxsize=8)
def _names_in(folder: Path, count: int, stamp: int) -> frozenset[str]:
    del count, stamp  # they are the key: files that changed are read again
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in folder.glob("*.py"))
    return frozenset(name for text in texts if "tinker_cookbook" in text for name in _REGISTERS.findall(text))
