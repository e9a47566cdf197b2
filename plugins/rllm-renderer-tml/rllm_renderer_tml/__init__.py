"""tml-renderers for rllm-renderer-core: the hook alone. Light: what renders is imported by ``create``."""

from __future__ import annotations

from collections.abc import Iterable

from rllm_renderer_core.plugin import Backend, hookimpl

from .backend import TmlBackend

__version__ = "0.1.0"

rllm_renderer_api = 1


@hookimpl
def rllm_renderer_backends() -> Iterable[Backend]:
    return (TmlBackend(),)
