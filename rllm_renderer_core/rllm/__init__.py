"""rLLM's own spellings: what its gateway, its engines and its trainers call, in the call forms of both its revisions."""

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

__all__ = [
    "PIN_VARIABLE",
    "EngineOutput",
    "RendererResolution",
    "RllmRenderer",
    "build_renderer",
    "create_renderer",
    "describe",
    "get_renderer",
    "read_pin",
    "resolve",
]
