"""rLLM's own spellings: what its gateway, its engines and its trainers call, in the call forms of both its revisions."""

from rllm_renderer_core.types import ParsedResponse, RenderedTokens, Renderer

from .answers import follows_completion
from .named import check_named
from .parser import ChatParser
from .pool import RendererPool
from .refusals import http_status, openai_error
from .renderer import EngineOutput, RllmRenderer
from .spellings import (
    PIN_VARIABLE,
    RendererResolution,
    build_renderer,
    create_renderer,
    describe,
    get_renderer,
    read_pin,
    resolve,
)

__version__ = "0.1.0"

__all__ = [
    "PIN_VARIABLE",
    "ChatParser",
    "EngineOutput",
    "ParsedResponse",
    "RenderedTokens",
    "Renderer",
    "RendererPool",
    "RendererResolution",
    "RllmRenderer",
    "build_renderer",
    "check_named",
    "create_renderer",
    "describe",
    "follows_completion",
    "get_renderer",
    "http_status",
    "openai_error",
    "read_pin",
    "resolve",
]
