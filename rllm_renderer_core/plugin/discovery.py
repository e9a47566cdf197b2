"""Finding backends: plugins by their metadata, then each one loaded and its hooks called in isolation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..errors import IncompatiblePluginError, RendererError, RendererWarning
from .answers import HOOKS, backends_of, checked
from .backend import Backend
from .distributions import CORE_DISTRIBUTION, KNOWN_PLUGINS, TEMPLATE_DISTRIBUTION, install_command
from .hooks import API_VERSION, GROUP, HookSpec, Registered
from .metadata import Plugin, PluginInfo, find, mark_duplicates, plugin_error

T = TypeVar("T")

_warned: set[tuple[str, ...]] = set()
_loaded: dict[Any, tuple[Any, Sequence[Backend]]] = {}
"""Hooks and backends of each entry point's object, usually a module: it is asked for its backends once a process."""


class Installed(NamedTuple):
    """What is installed here.

    Attributes:
        registered: All usable backends.
        plugins: All plugins with their states.
    """

    registered: list[Registered]
    plugins: list[Plugin]

    def first_answer(self, hook: str, use: Callable[[Any], T | None], **given: Any) -> T | None:
        """What is made of the first answer that isn't ``None`` of a hook; ``None`` where no plugin has one.

        Args:
            hook: Its name.
            use: Called with the answer, in the same isolation: a plugin that fails is reported, and the next one is asked.
            given: The hook's arguments.

        Raises:
            PluginError: Under ``RLLM_RENDERER_STRICT=1``, where a plugin fails.
            RendererError: What a plugin raises on purpose.
        """
        for plugin in self.plugins:
            if plugin.error is not None or not getattr(plugin.hooks, hook).get_hookimpls():
                continue
            try:
                answer = getattr(plugin.hooks, hook)(**given)
                if answer is not None:
                    return use(checked(answer, f"{HOOKS[hook].__name__} or None", HOOKS[hook]))
            except (RendererError, RendererWarning):  # a warning, where the user's filter makes errors of them
                raise
            except (Exception, SystemExit) as error:
                why = f"{hook} raised {type(error).__name__}: {error}"
                failed = plugin_error(plugin, f"plugin {plugin.name!r}", why)
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
        plugin = next((plugin for plugin in self.plugins if plugin.distribution == TEMPLATE_DISTRIBUTION), None)
        if plugin is None:
            return install_command(TEMPLATE_DISTRIBUTION)
        return plugin.error.fix if plugin.error is not None else None


def strict() -> bool:
    """Whether ``RLLM_RENDERER_STRICT=1``: what is otherwise recorded or declined raises."""
    return os.environ.get("RLLM_RENDERER_STRICT", "") not in ("", "0")


def plugins(*, check: bool = False) -> list[PluginInfo]:
    """Every plugin found, in order of name. Never raises.

    Args:
        check: Import each plugin and call its hook. Without it no plugin is imported, and ``state`` is ``"found"`` for those
            that nothing speaks against yet.
    """
    return [plugin.info() for plugin in (_load_all() if check else find())]


def load_backends() -> Installed:
    """Everything installed, loaded.

    Raises:
        PluginError: Under ``RLLM_RENDERER_STRICT=1``, the first plugin that can't be used.
    """
    found = _load_all()
    for plugin in found:
        if plugin.error is None or plugin.state == "disabled":
            continue
        if strict():
            raise plugin.error
        if plugin.state != "duplicate":  # those are said when it is known what they compete for
            warn_once(str(plugin.error), key=(plugin.name, plugin.distribution, plugin.version))
    return Installed([backend for plugin in found if plugin.error is None for backend in registered_by(plugin)], found)


def registered_by(plugin: Plugin) -> list[Registered]:
    """The backends of a loaded plugin."""
    source = (plugin.name, plugin.distribution, plugin.version)
    return [Registered(backend, *source, order) for order, backend in enumerate(plugin.backends)]


def warn_once(message: str, *, key: tuple[str, ...] | None = None) -> None:
    """A ``RendererWarning``, the first time in this process that ``key`` (or the message) comes up."""
    if (key or (message,)) not in _warned:
        _warned.add(key or (message,))
        warnings.warn(message, RendererWarning, stacklevel=3)


def load(plugin: Plugin) -> None:
    """Import a plugin and call its hook; whatever goes wrong is recorded on it. ``KeyboardInterrupt`` passes.

    A duplicate is loaded too, since only its backends tell which models it competes for; it stays a duplicate.
    """
    if plugin.entry_point is None or plugin.state not in ("found", "duplicate"):
        return
    state, duplicate = plugin.state, plugin.error
    try:
        module = plugin.entry_point.load()
        version = getattr(module, "rllm_renderer_api", API_VERSION)
        if version != API_VERSION:
            fix = f"install releases of {plugin.distribution} and {CORE_DISTRIBUTION} that fit each other"
            why = f"needs core API {version}, this is {API_VERSION}"
            plugin.fail("incompatible", why, fix, IncompatiblePluginError)
        else:
            if module not in _loaded:
                hooks = _hooks(plugin.name, module)
                _loaded[module] = hooks, backends_of(hooks)
            plugin.hooks, plugin.backends = _loaded[module]
            plugin.state = "loaded"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        plugin.fail("broken", f"installed but broken: {cause_of(error)}", _fix_for(plugin, error))
        assert plugin.error is not None
        plugin.error.__cause__ = error
    if state == "duplicate":
        plugin.state, plugin.error = state, duplicate


def _load_all() -> list[Plugin]:
    """All plugins, loaded; those that provide a backend of the same name marked as duplicates."""
    found = find()
    for plugin in found:
        load(plugin)
    claims = [(backend.name, plugin) for plugin in found if plugin.error is None for backend in plugin.backends]
    mark_duplicates(claims, "the backend {!r} is also provided by")
    return found


def _hooks(name: str, module: Any) -> Any:
    """One plugin's hooks alone: pluggy's own call over all plugins stops at the first exception."""
    import pluggy

    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(HookSpec)
    manager.register(module, name)
    manager.check_pending()
    return manager.hook


def cause_of(error: BaseException) -> str:
    """One line for what went wrong; a missing module by its name."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"module {error.name!r} is missing"
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _fix_for(plugin: Plugin, error: BaseException) -> str | None:
    if not isinstance(error, ImportError):
        return None
    return f"{install_command(plugin.distribution, option='--force-reinstall')}, or set RLLM_RENDERER_DISABLED={plugin.name}"
