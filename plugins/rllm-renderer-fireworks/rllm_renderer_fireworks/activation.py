"""Importing the cookbook without what its import does to everybody else.

Importing ``training.renderer`` writes renderers into a table that all users of tinker_cookbook share, some of them under
names that tinker_cookbook has itself. Here they are caught on the way and kept in a table of this plugin. The shared table is
neither changed nor, where somebody else imported the cookbook before, put back.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from rllm_renderer_core.errors import BackendUnavailableError

from . import cookbook

Factory = Callable[..., Any]
"""Tokenizer and image processor to a ``tinker_cookbook.renderers.Renderer``."""

_SHARED = "_CUSTOM_RENDERER_REGISTRY"
_lock = threading.RLock()
_factories: dict[str, Factory] = {}


def factory(name: str) -> Factory:
    """The cookbook's factory of a renderer. The first call imports the cookbook.

    Raises:
        BackendUnavailableError: Not installed, broken, a stranger's package or another version; see ``cookbook``.
    """
    table = factories(needed=name)
    if name not in table:
        raise BackendUnavailableError(
            f"other code imported the Fireworks cookbook, and {name!r} was taken out of tinker_cookbook's table since",
            fix="import what does that after this plugin has made its first renderer",
        )
    return table[name]


def factories(needed: str | None = None) -> Mapping[str, Factory]:
    """All that the cookbook registers, by name. Errors as in ``factory``."""
    found = cookbook.find()
    missing = found.lacks(needed or next(iter(sorted(found.names)), ""))
    if missing is not None:
        raise BackendUnavailableError(missing.reason, fix=missing.fix)
    with _lock:
        if not _factories:
            _factories.update(_imported(found))
        return dict(_factories)


def register() -> list[str]:
    """See ``rllm_renderer_fireworks.register``."""
    table = factories()
    renderers = importlib.import_module("tinker_cookbook.renderers")
    for name, make in table.items():
        renderers.register_renderer(name, make)
    return sorted(table)


def _imported(found: cookbook.Cookbook) -> dict[str, Factory]:
    renderers: Any = importlib.import_module("tinker_cookbook.renderers")
    real = renderers.register_renderer
    caught: dict[str, Factory] = {}
    importer = threading.get_ident()

    def catch(name: str, factory: Factory) -> None:
        """Stands in for upstream's function during the import; other threads' registrations go where they belong."""
        if threading.get_ident() == importer:
            caught[name] = factory
        else:
            real(name, factory)

    before = set(sys.modules)
    renderers.register_renderer = catch
    try:
        importlib.import_module(cookbook.RENDERERS)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A second attempt, perhaps after a missing module was installed, must run all of it again.
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == cookbook.PACKAGE:
                del sys.modules[name]
        raise _broken(found, error) from error
    finally:
        renderers.register_renderer = real
    shared = dict(getattr(renderers, _SHARED, None) or {})
    theirs = {name: factory for name, factory in shared.items() if _is_cookbooks(factory)}
    return theirs | caught


def _is_cookbooks(factory: Factory) -> bool:
    """Whether a factory in the shared table was put there by an earlier import of the cookbook."""
    return f"{getattr(factory, '__module__', '')}.".startswith(f"{cookbook.RENDERERS}.")


def _broken(found: cookbook.Cookbook, error: BaseException) -> BackendUnavailableError:
    if isinstance(error, ModuleNotFoundError) and error.name:
        what = f"module {error.name!r} is missing"
        fix = (
            f"install what brings {error.name!r}, or the cookbook with all that it needs: {cookbook.INSTALL} --force-reinstall"
        )
    else:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        fix = f"{cookbook.INSTALL} --force-reinstall, or switch the plugin off: RLLM_RENDERER_DISABLED=fireworks"
    return BackendUnavailableError(f"the Fireworks cookbook at {found.place} is installed but broken: {what}", fix=fix)
