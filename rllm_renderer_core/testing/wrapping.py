"""A bare renderer as ``resolve`` would return it: for tests of a renderer that no plugin brings yet."""

from __future__ import annotations

from typing import Any

from ..plugin import Backend, Coverage, Match, Query
from ..renderer.resolution import Resolution
from ..renderer.resolved import ResolvedRenderer
from ..types import Renderer


class _Holding(Backend):
    """A backend of one renderer, made elsewhere; pickled with it."""

    name = "wrapped"
    priority = 0

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer

    def covers(self, query: Query) -> Coverage:
        return Coverage(type(self.renderer).__name__, Match.NAMED, True, "wrapped by hand")

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        return self.renderer


def wrap(
    renderer: Renderer, tokenizer: Any = None, *, thinking_retention: str = "all", marker_text: str = "allow"
) -> ResolvedRenderer:
    """Put a renderer under the core's contract.

    Args:
        renderer: Anything with the methods of ``Renderer``.
        tokenizer: Its tokenizer, where it has one: tells the control tokens.
        thinking_retention: As for ``resolve``.
        marker_text: As for ``resolve``.
    """
    backend = _Holding(renderer)
    query = Query("wrapped", tokenizer, thinking_retention=thinking_retention)
    coverage = backend.covers(query)
    resolution = Resolution("wrapped", backend.name, coverage.renderer, "named", True, reason=coverage.reason)
    return ResolvedRenderer(backend, query, coverage, resolution, marker_text=marker_text)
