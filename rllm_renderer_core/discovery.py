"""Finding plugins: by metadata first, then each one loaded and asked in isolation.

Nothing is cached: an install or a changed environment variable counts at the next call. Reading the metadata imports no
plugin; what the environment forbids is never imported at all.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import importlib_metadata

from . import __version__
from .errors import DuplicatePluginError, IncompatiblePluginError, PluginError, RendererError, RendererWarning
from .plugin import API_VERSION, GROUP, Backend, HookSpec

CORE_DISTRIBUTION = "rllm-renderer-core"
BUILTIN = "chat-template"
KNOWN_PLUGINS = {
    "prime": "rllm-renderer-prime",
    "minimax-m3": "rllm-renderer-minimax-m3",
    "tinker": "rllm-renderer-tinker",
    "fireworks": "rllm-renderer-fireworks",
}
"""Published plugins by the name of their backend: only for hints such as "not installed, pip install ..."."""

_warned: set[tuple[str, ...]] = set()


@dataclass(frozen=True)
class PluginInfo:
    """One plugin found.

    Attributes:
        name: The entry point's name.
        distribution: The distribution that brings it; empty for what is built into the core.
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

    def fail(self, state: str, kind: type[PluginError], why: str, fix: str | None = None) -> None:
        self.state = state
        self.error = kind(
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


@dataclass(frozen=True)
class Registered:
    """A backend with where it came from; ``order`` is its place within its distribution."""

    backend: Backend
    plugin: str
    distribution: str
    version: str
    order: int


def strict() -> bool:
    """Whether ``RLLM_RENDERER_STRICT=1``: what is otherwise recorded or declined raises."""
    return os.environ.get("RLLM_RENDERER_STRICT", "") not in ("", "0")


def plugins(*, check: bool = False) -> list[PluginInfo]:
    """Every plugin found, in order of name. Never raises.

    Args:
        check: Import each plugin and call its hook. Without it no plugin is imported, and ``state`` is ``"found"`` for those
            that nothing speaks against yet.
    """
    found = find()
    if check:
        for plugin in found:
            load(plugin)
        _refuse_duplicate_backends(found)
    return [plugin.info() for plugin in found]


def load_backends() -> tuple[list[Registered], list[Plugin]]:
    """All usable backends (the built-in one last), and all plugins with their states.

    Raises:
        DuplicatePluginError: Two distributions provide the same plugin or backend: which one serves would be chance.
        PluginError: Under ``RLLM_RENDERER_STRICT=1``, the first plugin that can't be used.
    """
    from .learned.renderer import ChatTemplateBackend

    found = find()
    for plugin in found:
        load(plugin)
    _refuse_duplicate_backends(found)
    for plugin in found:
        if plugin.error is None or plugin.state == "disabled":
            continue
        if strict() or isinstance(plugin.error, DuplicatePluginError):
            raise plugin.error
        warn_once(str(plugin.error), key=(plugin.name, plugin.distribution, plugin.version))
    registered = [
        Registered(backend, plugin.name, plugin.distribution, plugin.version, order)
        for plugin in found
        for order, backend in enumerate(plugin.backends)
    ]
    registered.append(Registered(ChatTemplateBackend(), BUILTIN, CORE_DISTRIBUTION, __version__, 0))
    return registered, found


def warn_once(message: str, *, key: tuple[str, ...] | None = None) -> None:
    """A ``RendererWarning``, the first time in this process that ``key`` (or the message) comes up."""
    if (key or (message,)) not in _warned:
        _warned.add(key or (message,))
        warnings.warn(message, RendererWarning, stacklevel=3)


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
        fix = f"pip install --force-reinstall {name}"
        plugin.fail("broken", PluginError, f"its entry_points.txt can't be read: {error}", fix)
        yield plugin


def _name_of(dist: Any) -> str:
    """The distribution's name, from the name of its metadata folder where that tells: reading all METADATA takes long."""
    return _canonical(str(getattr(dist, "_normalized_name", None) or dist.metadata["Name"]))


def load(plugin: Plugin) -> None:
    """Import the plugin and call its hook; whatever goes wrong is recorded on it. ``KeyboardInterrupt`` passes."""
    if plugin.state != "found" or plugin.entry_point is None:
        return
    try:
        loaded = plugin.entry_point.load()
        wanted = getattr(loaded, "rllm_renderer_api", API_VERSION)
        if wanted != API_VERSION:
            plugin.fail(
                "incompatible",
                IncompatiblePluginError,
                f"needs core API {wanted}, this is {API_VERSION}",
                f"install releases of {plugin.distribution} and {CORE_DISTRIBUTION} that fit each other",
            )
            return
        plugin.backends = _call_hook(plugin.name, loaded)
        plugin.state = "loaded"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        plugin.fail("broken", PluginError, f"installed but broken: {cause_of(error)}", _fix_for(plugin, error))
        assert plugin.error is not None
        plugin.error.__cause__ = error


def _call_hook(name: str, loaded: Any) -> list[Backend]:
    """Calls one plugin's hook alone: pluggy's own call over all plugins stops at the first exception."""
    import pluggy

    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(HookSpec)
    manager.register(loaded, name)
    manager.check_pending()
    results = manager.hook.rllm_renderer_backends()
    if not results:
        raise TypeError("it has no @hookimpl named rllm_renderer_backends, or the hook returned None")
    backends = results[0]
    if isinstance(backends, (str, bytes, Backend)) or not isinstance(backends, Iterable):
        raise TypeError(f"rllm_renderer_backends must return a list of Backend, not {type(backends).__name__}")
    return [_valid(backend) for backend in backends]


def _valid(backend: Any) -> Backend:
    if not isinstance(backend, Backend):
        raise TypeError(f"rllm_renderer_backends must return Backend instances, not {type(backend).__name__}")
    name, priority = getattr(backend, "name", None), getattr(backend, "priority", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{type(backend).__name__} has no name")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise TypeError(f"backend {name!r} needs an int as priority, not {priority!r}")
    return backend


def cause_of(error: BaseException) -> str:
    """One line for what went wrong; a missing module by its name."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"module {error.name!r} is missing"
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _fix_for(plugin: Plugin, error: BaseException) -> str:
    if isinstance(error, ImportError):
        return f"pip install --force-reinstall {plugin.distribution}, or set RLLM_RENDERER_DISABLED={plugin.name}"
    return f"report it to the authors of {plugin.distribution}, or set RLLM_RENDERER_DISABLED={plugin.name}"


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
        _mark_duplicates(same, f"the name {name!r} is also taken by")


def _refuse_duplicate_backends(found: list[Plugin]) -> None:
    by_name: dict[str, list[Plugin]] = {}
    for plugin in found:
        for backend in plugin.backends:
            by_name.setdefault(backend.name, []).append(plugin)
    for name, same in by_name.items():
        if name == BUILTIN:
            for plugin in same:
                plugin.fail("duplicate", DuplicatePluginError, f"the backend {name!r} is built into {CORE_DISTRIBUTION}")
        _mark_duplicates(same, f"the backend {name!r} is also provided by")


def _mark_duplicates(same: list[Plugin], what: str) -> None:
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
                f"pip install --upgrade {plugin.distribution} {CORE_DISTRIBUTION}",
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
