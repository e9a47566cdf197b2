"""Plugins by their metadata alone: nothing is imported, and what the environment forbids never will be.

Nothing is cached: an install or a changed environment variable counts at the next call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import importlib_metadata

from ..errors import DuplicatePluginError, IncompatiblePluginError, PluginError
from ..version import __version__
from .backend import Backend
from .distributions import CORE_DISTRIBUTION, install_command
from .hooks import GROUP, Registered


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
    """A plugin on its way from metadata to backends; the attributes of ``PluginInfo``, with what is made of its entry point."""

    name: str
    distribution: str
    version: str
    location: str
    entry_point: importlib_metadata.EntryPoint | None = None
    state: str = "found"
    error: PluginError | None = None
    hooks: Any = None
    backends: Sequence[Backend] = ()

    def fail(self, state: str, why: str, fix: str | None = None, kind: type[PluginError] = PluginError) -> None:
        """Record why it can't be used."""
        self.state, self.error = state, plugin_error(self, f"plugin {self.name!r}", why, fix, kind)

    def info(self) -> PluginInfo:
        """What is told to users."""
        names = tuple(backend.name for backend in self.backends)
        error = None if self.error is None else str(self.error)
        return PluginInfo(self.name, self.distribution, self.version, self.state, error, names, self.location)


def plugin_error(
    source: Plugin | Registered, subject: str, why: str, fix: str | None = None, kind: type[PluginError] = PluginError
) -> PluginError:
    """The error about a plugin, or about a backend of it, which ``subject`` names; with its distribution and version."""
    plugin = source.name if isinstance(source, Plugin) else source.plugin
    return kind(
        f"{subject} of {source.distribution} {source.version}: {why}",
        fix=fix or f"report it to the authors of {source.distribution}, or set RLLM_RENDERER_DISABLED={plugin}",
        plugin=plugin,
        distribution=source.distribution,
        version=source.version,
    )


def find() -> list[Plugin]:
    """Plugins by their metadata alone, those that the environment forbids or the core can't serve marked as such."""
    plugins = [plugin for distribution in _distributions() for plugin in _plugins_of(distribution)]
    plugins.sort(key=lambda plugin: (plugin.name, plugin.distribution))
    for plugin in plugins:
        _apply_environment(plugin)
    mark_duplicates([(plugin.name, plugin) for plugin in plugins if plugin.state == "found"], "the name {!r} is also taken by")
    for plugin in plugins:
        if plugin.state == "found":
            _check_core_requirement(plugin)
    return plugins


def _distributions() -> Iterator[Any]:
    """Each installed distribution with entry points in the group, once: of two copies of its metadata (egg-info beside
    dist-info, a symlinked path) the first on ``sys.path``, which is the one that would be imported."""
    seen: set[str] = set()
    for distribution in importlib_metadata.distributions():
        try:
            name = _name_of(distribution)
            if name not in seen and GROUP in (distribution.read_text("entry_points.txt") or ""):
                yield distribution
            seen.add(name)
        except Exception:  # unreadable metadata of a package that may have nothing to do with this one
            continue


def _plugins_of(distribution: Any) -> Iterator[Plugin]:
    """A plugin for each name in the group; one that has two values can't be loaded, as either may be the wrong one."""
    name, location = _name_of(distribution), str(getattr(distribution, "_path", ""))
    try:
        version = str(distribution.version)
    except Exception:  # no METADATA, as after an interrupted uninstall
        version = "?"
    try:
        entry_points: dict[str, dict[str, Any]] = {}
        for entry_point in distribution.entry_points.select(group=GROUP):
            entry_points.setdefault(entry_point.name, {})[entry_point.value] = entry_point
    except Exception as error:
        plugin = Plugin(name, name, version, location)
        plugin.fail("broken", f"its entry_points.txt can't be read: {error}", install_command(name, option="--force-reinstall"))
        yield plugin
        return
    for plugin_name, (entry_point, *others) in ((key, tuple(values.values())) for key, values in entry_points.items()):
        plugin = Plugin(plugin_name, name, version, location, entry_point)
        if others:
            values = " and ".join(repr(each.value) for each in (entry_point, *others))
            plugin.fail("broken", f"its entry_points.txt has {values} under this one name")
        yield plugin


def _name_of(distribution: Any) -> str:
    """The distribution's name, from the name of its metadata folder where that tells: reading all METADATA takes long."""
    return _canonical(str(getattr(distribution, "_normalized_name", None) or distribution.metadata["Name"]))


def _apply_environment(plugin: Plugin) -> None:
    names = {"*", _canonical(plugin.name), plugin.distribution}
    blocked, allowed = _names("RLLM_RENDERER_DISABLED"), _names("RLLM_RENDERER_PLUGINS")
    if blocked is not None and names & blocked:
        plugin.fail("disabled", "switched off by RLLM_RENDERER_DISABLED", "take its name out of RLLM_RENDERER_DISABLED")
    elif allowed is not None and not names & allowed:
        plugin.fail("disabled", "not listed in RLLM_RENDERER_PLUGINS", "add its name to RLLM_RENDERER_PLUGINS")


def _names(variable: str) -> set[str] | None:
    value = os.environ.get(variable)
    if value is None:
        return None
    return {_canonical(part.strip()) for part in value.split(",") if part.strip()}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def mark_duplicates(claims: Iterable[tuple[str, Plugin]], what: str) -> None:
    """Mark plugins that claim the same name, each naming the others."""
    by_name: dict[str, list[Plugin]] = {}
    for name, plugin in claims:
        by_name.setdefault(name, []).append(plugin)
    for name, same in by_name.items():
        fix = f"uninstall one of them, or set RLLM_RENDERER_DISABLED={same[-1].distribution}"
        for plugin in same if len(same) > 1 else ():
            others = ", ".join(f"{other.distribution} {other.version}" for other in same if other is not plugin) or "itself"
            plugin.fail("duplicate", f"{what.format(name)} {others}", fix, DuplicatePluginError)


def _check_core_requirement(plugin: Plugin) -> None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirements = (plugin.entry_point.dist.requires if plugin.entry_point and plugin.entry_point.dist else None) or ()
    except Exception:  # no METADATA
        return
    for text in requirements:
        try:
            needed = Requirement(text)
        except InvalidRequirement:
            continue
        counts = _canonical(needed.name) == CORE_DISTRIBUTION and (needed.marker is None or needed.marker.evaluate())
        if counts and not needed.specifier.contains(__version__, prereleases=True):
            fix = install_command(plugin.distribution, CORE_DISTRIBUTION, option="--upgrade")
            why = f"needs {CORE_DISTRIBUTION}{needed.specifier}, this is {__version__}"
            plugin.fail("incompatible", why, fix, IncompatiblePluginError)


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, or ``None``."""
    try:
        return str(importlib_metadata.version(distribution))
    except importlib_metadata.PackageNotFoundError:
        return None
