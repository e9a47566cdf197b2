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

    from .continuation import follows_completion as follows_completion
    from .http_errors import http_status as http_status
    from .http_errors import openai_error as openai_error
    from .parser import ChatParser as ChatParser
    from .pool import RendererPool as RendererPool
    from .renderer import EngineOutput as EngineOutput
    from .renderer import RllmRenderer as RllmRenderer
    from .same_renderer import check_same_renderer as check_same_renderer
    from .spellings import PIN_VARIABLE as PIN_VARIABLE
    from .spellings import RendererResolution as RendererResolution
    from .spellings import build_renderer as build_renderer
    from .spellings import get_renderer as get_renderer
    from .spellings import read_pin as read_pin
    from .spellings import resolve as resolve

__version__ = "0.1.0"

_MODULE = {
    "ChatParser": ".parser",
    "EngineOutput": ".renderer",
    "PIN_VARIABLE": ".spellings",
    "ParsedResponse": "rllm_renderer_core.types",
    "RenderedTokens": "rllm_renderer_core.types",
    "Renderer": "rllm_renderer_core.types",
    "RendererPool": ".pool",
    "RendererResolution": ".spellings",
    "RllmRenderer": ".renderer",
    "build_renderer": ".spellings",
    "check_same_renderer": ".same_renderer",
    "follows_completion": ".continuation",
    "get_renderer": ".spellings",
    "http_status": ".http_errors",
    "openai_error": ".http_errors",
    "read_pin": ".spellings",
    "resolve": ".spellings",
}

__all__ = [*_MODULE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_MODULE]
