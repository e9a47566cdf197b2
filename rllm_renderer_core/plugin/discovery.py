"""Finding backends: plugins by their metadata, then each one loaded and its hooks called in isolation.

Metadata is read at each call: an install or a changed environment variable counts at the next one. What the environment forbids
is never imported.
"""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

import importlib_metadata
import pluggy
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ..errors import PluginError, RendererError, RendererWarning
from ..version import __version__
from .backend import Backend
from .distributions import CORE_DISTRIBUTION, KNOWN_PLUGINS, TEMPLATE_DISTRIBUTION, install_command
from .hooks import API_VERSION, GROUP, HookSpec, PluginInfo, Registered, answer_of, backends_of, plugin_error

T = TypeVar("T")

_warned: set[tuple[str, ...]] = set()


class Plugin(PluginInfo):
    """A plugin on its way from metadata to backends."""

    entry_point: importlib_metadata.EntryPoint | None = None
    requires: Sequence[str] = ()
    fault: PluginError | None = None
    hooks: Any = None
    registered: Sequence[Registered] = ()

    def fail(self, state: str, why: str, fix: str | None = None, cause: BaseException | None = None) -> None:
        """Record why it can't be used; the first reason counts."""
        if self.fault is None:
            self.state = state
            self.fault = plugin_error(self, why, fix)
            self.fault.__cause__ = cause
            self.error = str(self.fault)


class Installed(NamedTuple):
    """What is installed here: all usable backends in order of priority, and all plugins with their states."""

    registered: list[Registered]
    plugins: list[Plugin]

    def first_answer(self, hook: str, use: Callable[[Any], T | None], **given: Any) -> T | None:
        """What ``use`` makes of a hook's first answer that isn't ``None``; ``None`` where no plugin has one. Where one fails,
        that is reported, or raised under ``RLLM_RENDERER_STRICT=1``, and the next plugin is asked."""
        for plugin in [plugin for plugin in self.plugins if plugin.fault is None]:
            try:
                answer = answer_of(plugin.hooks, hook, given)
                if answer is not None:
                    return use(answer)
            except (RendererError, RendererWarning):  # a warning, where the user's filter makes errors of them
                raise
            except (Exception, SystemExit) as error:
                failed = plugin_error(plugin, f"{hook} raised {type(error).__name__}: {error}")
                if strict():
                    raise failed from error
                warn_once(str(failed))
        return None

    def missing(self) -> list[tuple[str, str]]:
        """Backend and distribution of each published plugin that isn't installed."""
        names = {registered.backend.name for registered in self.registered} | {plugin.name for plugin in self.plugins}
        present = {plugin.distribution for plugin in self.plugins}
        return [(name, dist) for name, dist in KNOWN_PLUGINS.items() if name not in names and dist not in present]

    def template_fix(self) -> str | None:
        """What makes the chat template's plugin usable; ``None`` where it is."""
        for plugin in self.plugins:
            if plugin.distribution == TEMPLATE_DISTRIBUTION:
                return plugin.fault.fix if plugin.fault else None
        return install_command(TEMPLATE_DISTRIBUTION)


def strict() -> bool:
    """Whether ``RLLM_RENDERER_STRICT=1``: what is otherwise recorded or declined raises."""
    return os.environ.get("RLLM_RENDERER_STRICT", "") not in ("", "0")


def warn_once(message: str, *, key: tuple[str, ...] | None = None) -> None:
    """A ``RendererWarning``, the first time in this process that ``key`` (or the message) comes up."""
    if (key or (message,)) not in _warned:
        _warned.add(key or (message,))
        warnings.warn(message, RendererWarning, stacklevel=3)


def plugins(*, check: bool = False) -> list[PluginInfo]:
    """Every plugin found, in order of name. Never raises.

    ``check`` imports each plugin and calls its hook. Without it no plugin is imported, and ``state`` is ``"found"`` for those
    that nothing speaks against yet.
    """
    return [PluginInfo(**asdict(plugin)) for plugin in (_load_all() if check else find())]


def load_backends() -> Installed:
    """Everything installed, loaded; under ``RLLM_RENDERER_STRICT=1`` the first plugin that can't be used is raised."""
    found = _load_all()
    for plugin in found:
        if plugin.fault is not None and plugin.state != "disabled" and strict():
            raise plugin.fault
        if plugin.fault is not None and plugin.state not in ("disabled", "duplicate"):  # see ``select`` for duplicates
            warn_once(str(plugin.error), key=(plugin.name, plugin.distribution, plugin.version))
    usable = (registered for plugin in found if plugin.fault is None for registered in plugin.registered)
    return Installed(sorted(usable, key=lambda registered: -registered.backend.priority), found)


def _load_all() -> list[Plugin]:
    """All plugins, loaded; those that provide a backend of the same name marked as duplicates."""
    found = find()
    for plugin in found:
        load(plugin)
    claims = [(name, plugin) for plugin in found if plugin.fault is None for name in plugin.backends]
    _mark_duplicates(claims, "the backend {!r} is also provided by")
    return found


def load(plugin: Plugin) -> None:
    """Import a plugin and call its hook; whatever goes wrong is recorded on it. A duplicate is loaded too, and stays one: its
    backends tell which models it competes for."""
    if plugin.entry_point is None or plugin.state not in ("found", "duplicate"):
        return
    try:
        module = plugin.entry_point.load()
        version = getattr(module, "rllm_renderer_api", API_VERSION)
        if version != API_VERSION:
            fix = f"install releases of {plugin.distribution} and {CORE_DISTRIBUTION} that fit each other"
            plugin.fail("incompatible", f"needs core API {version}, this is {API_VERSION}", fix)
            return
        plugin.hooks, backends = _asked(plugin.name, module)
    except (Exception, SystemExit) as error:
        fix = f"{install_command(plugin.distribution, option='--force-reinstall')}, or set RLLM_RENDERER_DISABLED={plugin.name}"
        why = f"installed but broken: {cause_of(error)}"
        plugin.fail("broken", why, fix if isinstance(error, ImportError) else None, error)
        return
    source = (plugin.name, plugin.distribution, plugin.version)
    plugin.registered = [Registered(backend, *source, order) for order, backend in enumerate(backends)]
    plugin.backends = tuple(backend.name for backend in backends)
    if plugin.fault is None:
        plugin.state = "loaded"


@functools.cache
def _asked(name: str, module: Any) -> tuple[Any, Sequence[Backend]]:
    """One plugin's hooks alone, as pluggy's own call over all plugins stops at the first exception; and its backends, for which
    it is asked once a process."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(HookSpec)
    manager.register(module, name)
    manager.check_pending()
    return manager.hook, backends_of(manager.hook)


def cause_of(error: BaseException) -> str:
    """One line for what went wrong; a missing module by its name."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"module {error.name!r} is missing"
    return ": ".join(filter(None, (type(error).__name__, str(error))))


def find() -> list[Plugin]:
    """Plugins by their metadata alone, those that the environment forbids or the core can't serve marked as such."""
    found = sorted(_entry_points(), key=lambda plugin: (plugin.name, plugin.distribution))
    _mark_duplicates([(plugin.name, plugin) for plugin in found if plugin.fault is None], "the name {!r} is also taken by")
    for plugin in found:
        _check_core_requirement(plugin)
    return found


def _entry_points() -> Iterator[Plugin]:
    """The plugins of each installed distribution, once: of two copies of its metadata (egg-info beside dist-info, a symlinked
    path) those of the first on ``sys.path``, which is the one that would be imported."""
    seen: set[str] = set()
    for distribution in importlib_metadata.distributions():
        try:
            # From the name of its metadata's folder where that tells: reading all METADATA takes long.
            name = canonicalize_name(str(getattr(distribution, "_normalized_name", None) or distribution.metadata["Name"]))
            if name not in seen and GROUP in (distribution.read_text("entry_points.txt") or ""):
                yield from _plugins_of(distribution, name)
            seen.add(name)
        except Exception:  # unreadable metadata of a package that may have nothing to do with this one
            continue


def _plugins_of(distribution: Any, name: str) -> Iterator[Plugin]:
    """A plugin for each name in the group; one that has two values can't be loaded, as either may be the wrong one."""
    location, version, requires = str(getattr(distribution, "_path", "")), "?", list[str]()
    with contextlib.suppress(Exception):  # no METADATA, as after an interrupted uninstall
        version, requires = str(distribution.version), distribution.requires or []
    values: dict[str, dict[str, importlib_metadata.EntryPoint]] = {}
    try:
        for entry_point in distribution.entry_points.select(group=GROUP):
            values.setdefault(entry_point.name, {})[entry_point.value] = entry_point
    except Exception as error:
        plugin = _in_environment(Plugin(name, name, version, location=location))
        plugin.fail("broken", f"its entry_points.txt can't be read: {error}", install_command(name, option="--force-reinstall"))
        yield plugin
        return
    for plugin_name, named in values.items():
        plugin = _in_environment(Plugin(plugin_name, name, version, location=location))
        plugin.entry_point, plugin.requires = next(iter(named.values())), requires
        if len(named) > 1:
            plugin.fail("broken", f"its entry_points.txt has {' and '.join(map(repr, named))} under this one name")
        yield plugin


def _in_environment(plugin: Plugin) -> Plugin:
    """The plugin, marked where an environment variable forbids it."""
    names = {"*", canonicalize_name(plugin.name), plugin.distribution}
    if names & _names("RLLM_RENDERER_DISABLED"):
        plugin.fail("disabled", "switched off by RLLM_RENDERER_DISABLED", "take its name out of RLLM_RENDERER_DISABLED")
    elif "RLLM_RENDERER_PLUGINS" in os.environ and not names & _names("RLLM_RENDERER_PLUGINS"):
        plugin.fail("disabled", "not listed in RLLM_RENDERER_PLUGINS", "add its name to RLLM_RENDERER_PLUGINS")
    return plugin


def _names(variable: str) -> set[str]:
    return {canonicalize_name(part.strip()) for part in os.environ.get(variable, "").split(",")}


def _mark_duplicates(claims: Sequence[tuple[str, Plugin]], what: str) -> None:
    """Mark plugins that claim the same name, each naming the others."""
    for name, plugin in claims:
        same = [other for claimed, other in claims if claimed == name]
        if len(same) > 1:
            others = ", ".join(f"{other.distribution} {other.version}" for other in same if other is not plugin) or "itself"
            fix = f"uninstall one of them, or set RLLM_RENDERER_DISABLED={same[-1].distribution}"
            plugin.fail("duplicate", f"{what.format(name)} {others}", fix)


def _check_core_requirement(plugin: Plugin) -> None:
    for text in plugin.requires:
        with contextlib.suppress(InvalidRequirement):
            needed = Requirement(text)
            counts = canonicalize_name(needed.name) == CORE_DISTRIBUTION and (not needed.marker or needed.marker.evaluate())
            if counts and not needed.specifier.contains(__version__, prereleases=True):
                fix = install_command(plugin.distribution, CORE_DISTRIBUTION, option="--upgrade")
                plugin.fail("incompatible", f"needs {CORE_DISTRIBUTION}{needed.specifier}, this is {__version__}", fix)


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, or ``None``."""
    try:
        return str(importlib_metadata.version(distribution))
    except importlib_metadata.PackageNotFoundError:
        return None
