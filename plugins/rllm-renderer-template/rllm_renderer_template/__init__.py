"""The tokenizer's chat template for rllm-renderer-core: a backend, the bridge and parser that are learned from it, and parity.

The hooks, and the names that other plugins use. Light: what renders is imported when it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rllm_renderer_core.plugin import Backend, Detected, Judgement, Query, Registered, hookimpl

if TYPE_CHECKING:
    from .blocks.formats import block_parser as block_parser
    from .blocks.parser import BlockParser as BlockParser
    from .chat_template.template_parser import learned_parser as learned_parser
    from .parser.learned import LearnedParser as LearnedParser
    from .seam.bridge import SeamBridge as SeamBridge
    from .seam.renderer import SeamedRenderer as SeamedRenderer

__version__ = "0.1.0"

rllm_renderer_api = 1

_MODULE = {
    "SeamBridge": "seam.bridge",
    "SeamedRenderer": "seam.renderer",
    "LearnedParser": "parser.learned",
    "learned_parser": "chat_template.template_parser",
    "BlockParser": "blocks.parser",
    "block_parser": "blocks.formats",
}

__all__ = ["BlockParser", "LearnedParser", "SeamBridge", "SeamedRenderer", "block_parser", "learned_parser"]


@hookimpl
def rllm_renderer_backends() -> Iterable[Backend]:
    from .chat_template.backend import ChatTemplateBackend

    return (ChatTemplateBackend(),)


@hookimpl
def rllm_renderer_detect(query: Query, backends: Sequence[Registered]) -> Detected:
    from .parity.detection import detect

    found = detect(backends, query)
    if found.winner is None:
        return Detected(None, None, found.outcome)
    return Detected(found.winner.registered, found.winner.coverage, found.outcome)


@hookimpl
def rllm_renderer_judge(renderer: Any, query: Query, backends: Sequence[Registered]) -> Judgement:
    from .parity.judgement import TemplateJudgement

    return TemplateJudgement(renderer, query, backends)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE[name]}", __name__), name)
    globals()[name] = value
    return value
