"""The backend: taken only where it is asked for. Light: ``create`` imports rllm."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from rllm_renderer_core.plugin import Backend, Coverage, Match, Query, Unavailable
from rllm_renderer_core.types import Renderer


class ParserBackend(Backend):
    """Whatever ``ChatTemplateParser.get_parser`` makes of a tokenizer's name; only where the user says ``backend="parser"``."""

    name: ClassVar[str] = "parser"
    priority: ClassVar[int] = -100
    options: ClassVar[frozenset[str]] = frozenset({"thinking", "chat_template_kwargs"})
    upstream: ClassVar[tuple[str, ...]] = ("rllm",)
    sources: ClassVar[Mapping[str, str]] = {"rllm": "rllm.parser"}

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        """Nothing, unless this backend is the one that was asked for."""
        if query.backend != self.name or query.renderer not in (None, self.name):
            return None
        if not _has_parser():
            return Unavailable("rllm with rllm.parser isn't importable", "pip install rllm, or put its source on the path")
        return Coverage(self.name, Match.NAMED, True, "asked for; its bridges are proven by experiment")

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """The parser that rLLM picks for ``query.tokenizer``.

        Raises:
            OptionError: For a keyword that ``ChatTemplateParser.parse`` doesn't take.
        """
        from .renderer import create_renderer

        return create_renderer(query)

    def renderer_names(self) -> Iterable[str]:
        return (self.name,)


def _has_parser() -> bool:
    """Whether rllm has its parser, without importing rllm."""
    spec = importlib.util.find_spec("rllm")
    folders = spec.submodule_search_locations if spec is not None else None
    return any((Path(folder) / "parser" / "chat_template_parser.py").is_file() for folder in folders or ())
