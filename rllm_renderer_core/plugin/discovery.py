"""Finding backends: plugins by their metadata, then each one loaded and asked in isolation."""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple

from ..errors import DuplicatePluginError, RendererError, RendererWarning
from .distributions import KNOWN_PLUGINS
from .hooks import Registered
from .loading import load
from .metadata import Plugin, PluginInfo, find, mark_duplicates

_warned: set[tuple[str, ...]] = set()


class Installed(NamedTuple):
    """What is installed here.

    Attributes:
        registered: All usable backends.
        found: All plugins with their states.
        duplicated: Backends of plugins whose name, or the backend's, another distribution takes too, each with the error that
            says so. They serve nothing, and stop only what they compete for.
    """

    registered: list[Registered]
    found: list[Plugin]
    duplicated: list[tuple[Registered, DuplicatePluginError]]

    def first_result(self, hook: str, **given: Any) -> Any:
        """What the first plugin answers whose hook of this name says something; one that fails is said, and the others go on.

        Raises:
            PluginError: Under ``RLLM_RENDERER_STRICT=1``, where a plugin's hook fails.
            RendererError: What a hook raises on purpose.
        """
        for plugin in self.found:
            if plugin.error is not None or not getattr(plugin.hooks, hook).get_hookimpls():
                continue
            try:
                answer = getattr(plugin.hooks, hook)(**given)
            except RendererError:
                raise
            except (Exception, SystemExit) as error:
                failed = plugin.failed(f"{hook} raised {type(error).__name__}: {error}")
                if strict():
                    raise failed from error
                warn_once(str(failed))
                continue
            if answer is not None:
                return answer
        return None

    def missing(self) -> list[tuple[str, str]]:
        """Backend and distribution of each published plugin that isn't installed."""
        names = {each.backend.name for each in self.registered} | {plugin.name for plugin in self.found}
        present = {plugin.distribution for plugin in self.found}
        return [(name, dist) for name, dist in KNOWN_PLUGINS.items() if name not in names and dist not in present]


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


def load_backends() -> Installed:
    """Everything installed, loaded.

    Raises:
        PluginError: Under ``RLLM_RENDERER_STRICT=1``, the first plugin that can't be used.
    """
    found = find()
    for plugin in found:
        load(plugin)
    _refuse_duplicate_backends(found)
    for plugin in found:
        if plugin.error is None or plugin.state == "disabled":
            continue
        if strict():
            raise plugin.error
        if plugin.state != "duplicate":  # those are said when it is known what they compete for
            warn_once(str(plugin.error), key=(plugin.name, plugin.distribution, plugin.version))
    usable = [plugin for plugin in found if plugin.error is None]
    registered = [each for plugin in usable for each in _registered(plugin)]
    duplicated = [
        (each, plugin.error)
        for plugin in found
        if isinstance(plugin.error, DuplicatePluginError)
        for each in _registered(plugin)
    ]
    return Installed(registered, found, duplicated)


def _registered(plugin: Plugin) -> list[Registered]:
    return [
        Registered(backend, plugin.name, plugin.distribution, plugin.version, order)
        for order, backend in enumerate(plugin.backends)
    ]


def warn_once(message: str, *, key: tuple[str, ...] | None = None) -> None:
    """A ``RendererWarning``, the first time in this process that ``key`` (or the message) comes up."""
    if (key or (message,)) not in _warned:
        _warned.add(key or (message,))
        warnings.warn(message, RendererWarning, stacklevel=3)


def _refuse_duplicate_backends(found: list[Plugin]) -> None:
    by_name: dict[str, list[Plugin]] = {}
    for plugin in (each for each in found if each.error is None):
        for backend in plugin.backends:
            by_name.setdefault(backend.name, []).append(plugin)
    for name, same in by_name.items():
        mark_duplicates(same, f"the backend {name!r} is also provided by")
