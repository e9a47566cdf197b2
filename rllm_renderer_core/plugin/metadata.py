"""Plugins by their metadata alone: nothing is imported, and what the environment forbids never will be.

Nothing is cached: an install or a changed environment variable counts at the next call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import importlib_metadata

from ..errors import DuplicatePluginError, IncompatiblePluginError, PluginError, RendererError
from ..version import __version__
from .backend import Backend
from .distributions import CORE_DISTRIBUTION, install_command
from .hooks import GROUP


@dataclass(frozen=True)
class PluginInfo:
    """One plugin found.

    Attributes:
        name: The entry point's name.
        distribution: The distribution that brings it.
        version: That distribution's version.
        state: ``"found"`` (not imported yet), ``"loaded"``, ``"disabled"``, ``"incompatible"``, ``"broken"``, ``"duplicate"``.
        error: Why it can't be used, for the last four.
        backends: Names of its backends, where it was loaded.
        location: Where its metadata lies.
    """

    name: str
    distribution: str
    version: str
    state: str
    error: str | None = None
    backends: tuple[str, ...] = ()
    location: str = ""


@dataclass
class Plugin:
    """A plugin on its way from metadata to backends."""

    entry_point: importlib_metadata.EntryPoint | None
    name: str
    distribution: str
    version: str
    location: str
    state: str = "found"
    error: RendererError | None = None
    backends: list[Backend] = field(default_factory=list)
    hooks: Any = None

    def fail(self, state: str, kind: type[PluginError], why: str, fix: str | None = None) -> None:
        self.state, self.error = state, self.failed(why, fix, kind)

    def failed(self, why: str, fix: str | None = None, kind: type[PluginError] = PluginError) -> PluginError:
        """The error that says so, naming plugin, distribution and version."""
        return kind(
            f"plugin {self.name!r} of {self.distribution} {self.version}: {why}",
            fix=fix,
            plugin=self.name,
            distribution=self.distribution,
            version=self.version,
        )

    def info(self) -> PluginInfo:
        names = tuple(backend.name for backend in self.backends)
        error = None if self.error is None else str(self.error)
        return PluginInfo(self.name, self.distribution, self.version, self.state, error, names, self.location)


def find() -> list[Plugin]:
    """Plugins by their metadata alone, those that the environment forbids or the core can't serve marked as such."""
    found: dict[tuple[str, str], Plugin] = {}
    for dist in _distributions():
        for plugin in _plugins_of(dist):
            found.setdefault((plugin.name, plugin.distribution), plugin)
    ordered = sorted(found.values(), key=lambda plugin: (plugin.name, plugin.distribution))
    for plugin in ordered:
        _apply_environment(plugin)
    _refuse_duplicates(ordered)
    for plugin in ordered:
        if plugin.state == "found":
            _check_core_requirement(plugin)
    return ordered


def _distributions() -> Iterator[Any]:
    """Each installed distribution with entry points in the group, once: of two copies of its metadata (egg-info beside
    dist-info, a symlinked path) the first on ``sys.path``, which is the one that would be imported."""
    seen: set[str] = set()
    for dist in importlib_metadata.distributions():
        try:
            name = _name_of(dist)
            if name not in seen and GROUP in (dist.read_text("entry_points.txt") or ""):
                yield dist
            seen.add(name)
        except Exception:  # unreadable metadata of a package that may have nothing to do with this one
            continue


def _plugins_of(dist: Any) -> Iterator[Plugin]:
    name, location = _name_of(dist), str(getattr(dist, "_path", ""))
    try:
        version = str(dist.version)
    except Exception:  # no METADATA, as after an interrupted uninstall
        version = "?"
    try:
        for entry_point in dist.entry_points.select(group=GROUP):
            yield Plugin(entry_point, entry_point.name, name, version, location)
    except Exception as error:
        plugin = Plugin(None, name, name, version, location)
        fix = install_command(name, option="--force-reinstall")
        plugin.fail("broken", PluginError, f"its entry_points.txt can't be read: {error}", fix)
        yield plugin


def _name_of(dist: Any) -> str:
    """The distribution's name, from the name of its metadata folder where that tells: reading all METADATA takes long."""
    return _canonical(str(getattr(dist, "_normalized_name", None) or dist.metadata["Name"]))


def _apply_environment(plugin: Plugin) -> None:
    names = {_canonical(plugin.name), plugin.distribution}
    blocked = _names("RLLM_RENDERER_DISABLED")
    allowed = _names("RLLM_RENDERER_PLUGINS")
    if blocked is not None and ("*" in blocked or names & blocked):
        plugin.fail("disabled", PluginError, "switched off by RLLM_RENDERER_DISABLED", "take its name out of that variable")
    elif allowed is not None and not ("*" in allowed or names & allowed):
        plugin.fail("disabled", PluginError, "not listed in RLLM_RENDERER_PLUGINS", "add its name to that variable")


def _names(variable: str) -> set[str] | None:
    value = os.environ.get(variable)
    if value is None:
        return None
    return {_canonical(part.strip()) for part in value.split(",") if part.strip()}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _refuse_duplicates(found: list[Plugin]) -> None:
    by_name: dict[str, list[Plugin]] = {}
    for plugin in found:
        if plugin.state == "found":
            by_name.setdefault(plugin.name, []).append(plugin)
    for name, same in by_name.items():
        mark_duplicates(same, f"the name {name!r} is also taken by")


def mark_duplicates(same: list[Plugin], what: str) -> None:
    """Mark plugins that claim the same thing, each naming the others."""
    if len(same) < 2:
        return
    for plugin in same:
        others = ", ".join(f"{other.distribution} {other.version}" for other in same if other is not plugin) or "itself"
        fix = f"uninstall one of them, or set RLLM_RENDERER_DISABLED={same[-1].distribution}"
        plugin.fail("duplicate", DuplicatePluginError, f"{what} {others}", fix)


def _check_core_requirement(plugin: Plugin) -> None:
    for requirement in _requirements(plugin):
        if _canonical(requirement.name) != CORE_DISTRIBUTION or (requirement.marker and not requirement.marker.evaluate()):
            continue
        if not requirement.specifier.contains(__version__, prereleases=True):
            plugin.fail(
                "incompatible",
                IncompatiblePluginError,
                f"needs {CORE_DISTRIBUTION}{requirement.specifier}, this is {__version__}",
                install_command(plugin.distribution, CORE_DISTRIBUTION, option="--upgrade"),
            )


def _requirements(plugin: Plugin) -> Iterator[Any]:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        texts = (plugin.entry_point.dist.requires if plugin.entry_point and plugin.entry_point.dist else None) or ()
    except Exception:  # no METADATA
        return
    for text in texts:
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, or ``None``."""
    try:
        return str(importlib_metadata.version(distribution))
    except importlib_metadata.PackageNotFoundError:
        return None
