"""Loading a plugin: its module imported and its hook called, alone, so that what goes wrong stops no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import IncompatiblePluginError, PluginError
from .backend import Backend
from .distributions import CORE_DISTRIBUTION, install_command
from .hooks import API_VERSION, GROUP, HookSpec
from .metadata import Plugin


def load(plugin: Plugin) -> None:
    """Import the plugin and call its hook; whatever goes wrong is recorded on it. ``KeyboardInterrupt`` passes.

    A duplicate is loaded too, since only its backends tell which models it competes for; it stays a duplicate.
    """
    if plugin.state not in ("found", "duplicate") or plugin.entry_point is None:
        return
    duplicate = plugin.error if plugin.state == "duplicate" else None
    _load(plugin)
    if duplicate is not None:
        plugin.state, plugin.error = "duplicate", duplicate


def _load(plugin: Plugin) -> None:
    assert plugin.entry_point is not None
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
        plugin.hooks = _hooks(plugin.name, loaded)
        plugin.backends = _backends_of(plugin.hooks)
        plugin.state = "loaded"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        plugin.fail("broken", PluginError, f"installed but broken: {cause_of(error)}", _fix_for(plugin, error))
        assert plugin.error is not None
        plugin.error.__cause__ = error


def _hooks(name: str, loaded: Any) -> Any:
    """One plugin's hooks alone: pluggy's own call over all plugins stops at the first exception."""
    import pluggy

    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(HookSpec)
    manager.register(loaded, name)
    manager.check_pending()
    return manager.hook


def _backends_of(hooks: Any) -> list[Backend]:
    results = hooks.rllm_renderer_backends()
    if not results:
        if hooks.rllm_renderer_detect.get_hookimpls() or hooks.rllm_renderer_judge.get_hookimpls():
            return []
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
    for attribute in ("options", "spellings", "upstream", "own_vocabulary"):
        value = getattr(backend, attribute)
        if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(each, str) for each in value):
            raise TypeError(f"{attribute} of backend {name!r} must be a set or tuple of texts, not {value!r}")
    return backend


def cause_of(error: BaseException) -> str:
    """One line for what went wrong; a missing module by its name."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"module {error.name!r} is missing"
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _fix_for(plugin: Plugin, error: BaseException) -> str:
    if isinstance(error, ImportError):
        again = install_command(plugin.distribution, option="--force-reinstall")
        return f"{again}, or set RLLM_RENDERER_DISABLED={plugin.name}"
    return f"report it to the authors of {plugin.distribution}, or set RLLM_RENDERER_DISABLED={plugin.name}"
