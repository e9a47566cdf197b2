"""rLLM's own call forms: what its gateway, its engines and its trainers call, for both revisions that have a patch.

Names are loaded on first use: the plugin beside them, ``parser_backend``, is found by every resolver and must stay light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllm_renderer_core.types import ParsedResponse as ParsedResponse
    from rllm_renderer_core.types import RenderedTokens as RenderedTokens
    from rllm_renderer_core.types import Renderer as Renderer

    from .continuation import *  # noqa: F403
    from .http_errors import *  # noqa: F403
    from .parser import *  # noqa: F403
    from .pool import *  # noqa: F403
    from .renderer import *  # noqa: F403
    from .same_renderer import *  # noqa: F403
    from .spellings import *  # noqa: F403
    from .steps import *  # noqa: F403

__version__ = "0.1.0"

_HOME = {
    "rllm_renderer_core.types": ("ParsedResponse", "RenderedTokens", "Renderer"),
    ".continuation": ("follows_completion",),
    ".http_errors": ("http_status", "openai_error"),
    ".parser": ("ChatParser",),
    ".pool": ("RendererPool",),
    ".renderer": ("EngineOutput", "RllmRenderer"),
    ".same_renderer": ("check_same_renderer",),
    ".spellings": ("PIN_VARIABLE", "RendererResolution", "build_renderer", "get_renderer", "read_pin", "resolve"),
    ".steps": ("rllm_steps", "to_rllm"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [*_MODULE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE[name], __name__), name)
    globals()[name] = value
    return value
