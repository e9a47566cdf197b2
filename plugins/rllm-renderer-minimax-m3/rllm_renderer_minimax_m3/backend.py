"""The backend: which models it covers. Light: what renders is imported by ``create``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from rllm_renderer_core.plugin import Backend, Coverage, Match, Query
from rllm_renderer_core.types import Renderer

MODELS = frozenset({"MiniMaxAI/MiniMax-M3", "MiniMaxAI/MiniMax-M3-MXFP8"})
"""The published checkpoints, spelled as on the hub. A fine-tune of another name is for ``renderer="minimax-m3"``."""


class MiniMaxM3Backend(Backend):
    """MiniMax-M3, hand-written after the checkpoint's ``chat_template.jinja``, with a native bridge."""

    name: ClassVar[str] = "minimax-m3"
    priority: ClassVar[int] = 80
    options: ClassVar[frozenset[str]] = frozenset({"thinking", "chat_template_kwargs"})

    def covers(self, query: Query) -> Coverage | None:
        """By the name of the renderer where the user gave one, else by exact membership in ``MODELS``."""
        if query.renderer is not None:
            return self._coverage(Match.NAMED, "named by the user") if query.renderer == self.name else None
        return self._coverage(Match.EXACT, "a published MiniMax-M3 checkpoint") if query.model in MODELS else None

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """The renderer on ``query.tokenizer``.

        Raises:
            OptionError: For a template keyword or a value that the template doesn't have.
            TokenizerError: For a tokenizer without the format's reserved tokens.
        """
        from .options import read_options
        from .renderer import MiniMaxM3Renderer

        return MiniMaxM3Renderer(query.tokenizer, read_options(query.thinking, query.chat_template_kwargs))

    def renderer_names(self) -> Iterable[str]:
        return (self.name,)

    def models(self) -> Iterable[str]:
        return MODELS

    def candidates(self, query: Query) -> Iterable[Coverage]:
        return (self._coverage(Match.PARITY, "the tokenizer's template gives the same ids"),)

    def deviations(self, coverage: Coverage) -> Mapping[str, str]:
        return {"inline": "a marker that text spells is text, but under chat_template_kwargs={'marker_text': 'template'}"}

    def _coverage(self, match: Match, reason: str) -> Coverage:
        return Coverage(renderer=self.name, match=match, has_bridge=True, reason=reason)
