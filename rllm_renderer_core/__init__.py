"""One token-level renderer interface for RL rollouts, served by whichever installed plugin knows the model best.

Names are loaded on first use, so that importing this package costs next to nothing and imports no third party.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import errors as errors
from .version import __version__ as __version__

_TYPES = ("Message", "Renderer", "RenderedTokens", "ParsedResponse", "ToolCall", "ToolCallStatus", "ToolSpec", "Termination")
_HOME = {
    "resolving.resolver": ("resolve", "select_backend", "explain"),
    "resolving.verdicts": ("Explanation",),
    "resolving.request": ("Options",),
    "renderer.resolved": ("ResolvedRenderer",),
    "renderer.resolution": ("Resolution",),
    "plugin.discovery": ("plugins",),
    "plugin.hooks": ("PluginInfo",),
    "types": _TYPES,
    "plugin": ("Backend", "Query", "Coverage", "Unavailable", "Match", "RendererTraits", "hookimpl"),
    "errors": tuple(name for name in vars(errors) if name.endswith(("Error", "Warning", "Declined"))),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [*_MODULE]  # noqa: PLE0604

if TYPE_CHECKING:
    from .errors import *  # noqa: F403
    from .plugin import Backend as Backend
    from .plugin import Coverage as Coverage
    from .plugin import Match as Match
    from .plugin import Query as Query
    from .plugin import RendererTraits as RendererTraits
    from .plugin import Unavailable as Unavailable
    from .plugin import hookimpl as hookimpl
    from .plugin.discovery import plugins as plugins
    from .plugin.hooks import PluginInfo as PluginInfo
    from .renderer.resolution import Resolution as Resolution
    from .renderer.resolved import ResolvedRenderer as ResolvedRenderer
    from .resolving.request import Options as Options
    from .resolving.resolver import explain as explain
    from .resolving.resolver import resolve as resolve
    from .resolving.resolver import select_backend as select_backend
    from .resolving.verdicts import Explanation as Explanation
    from .types import *  # noqa: F403


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE})
