"""rLLM's ``ChatTemplateParser`` for rllm-renderer-core: the hook alone. Light: ``create`` imports rllm."""

from __future__ import annotations

from collections.abc import Iterable

from rllm_renderer_core.plugin import Backend, hookimpl

from .backend import ParserBackend

__version__ = "0.1.0"

rllm_renderer_api = 1


@hookimpl
def rllm_renderer_backends() -> Iterable[Backend]:
    return (ParserBackend(),)
