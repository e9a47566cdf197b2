"""The backend: which models it covers, and how a renderer is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from rllm_renderer_core.plugin import Backend, Coverage, Match, Query, Unavailable
from rllm_renderer_core.types import Renderer

from . import cookbook
from .families import DATED, FAMILIES, FORMS, STOP_STRINGS, THINKING, base_of, family_of, thinking_variant


class FireworksBackend(Backend):
    """The models that the Fireworks cookbook brings renderers for; all its renderers by name."""

    name: ClassVar[str] = "fireworks"
    priority: ClassVar[int] = 40
    options: ClassVar[frozenset[str]] = frozenset({"thinking", "image_processor"})
    spellings: ClassVar[frozenset[str]] = frozenset({"renderer_name"})
    upstream: ClassVar[tuple[str, ...]] = (
        cookbook.DISTRIBUTION,
        "tinker-cookbook",
        "rllm-renderer-tinker",  # the adapter
        "rllm-renderer-template",  # the bridge and the parser
    )
    sources: ClassVar[Mapping[str, str]] = {
        cookbook.DISTRIBUTION: cookbook.RENDERERS,
        "tinker-cookbook": "tinker_cookbook.renderers",
    }

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        """By the renderer's name where the user gave one, else by the table's rules on the model's id."""
        found = cookbook.find()
        if query.renderer is not None:
            known = query.renderer in self._names(found) or query.renderer in _expected()
            if not known and not (query.backend == self.name and found.state is not cookbook.State.PRESENT):
                return None
            return self._coverage(found, query, query.renderer, Match.NAMED, "named by the user")
        row = family_of(query.model)
        if row is None:
            return None
        listed = query.model in row.checked
        reason = f"{'checked on this model' if listed else 'by a rule on its id'}: {row.source}"
        return self._coverage(found, query, row.renderer, Match.EXACT if listed else Match.FAMILY, reason)

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """The renderer on ``query.tokenizer``. The first one imports the cookbook.

        Raises:
            BackendUnavailableError: The cookbook is broken, or not what it was when ``covers`` was asked.
            OptionError: ``thinking`` where there is no such variant, ``image_processor`` for a renderer of text.
        """
        from rllm_renderer_tinker.factory import no_such_variant, text_alone

        if thinking_variant(coverage.renderer, query.thinking) is None:
            raise no_such_variant(query.thinking, coverage.renderer, self.name)
        from .renderer import build

        renderer = build(coverage.renderer, query.tokenizer, query.image_processor, query.date)
        if query.image_processor is not None and not renderer.supports_media:
            raise text_alone(coverage.renderer, self.name)
        return renderer

    def renderer_names(self) -> Iterable[str]:
        return sorted(self._names(cookbook.find()) or _expected())

    def models(self) -> Iterable[str]:
        return [model for row in FAMILIES for model in row.checked]

    def candidates(self, query: Query) -> Iterable[Coverage]:
        """The renderer of each row, for tokenizers whose name nobody knows."""
        found = cookbook.find()
        for row in FAMILIES:
            answer = self._coverage(found, query, row.renderer, Match.PARITY, "the tokenizer's template gives the same ids")
            if isinstance(answer, Coverage):
                yield answer

    def _names(self, found: cookbook.Cookbook) -> set[str]:
        return {name for name, base in FORMS.items() if base in found.names} | found.names

    def _coverage(
        self, found: cookbook.Cookbook, query: Query, renderer: str, match: Match, reason: str
    ) -> Coverage | Unavailable:
        # Where there is no such variant, create refuses: the model is covered, the option isn't.
        name = thinking_variant(renderer, query.thinking) or renderer
        missing = found.lacks(base_of(name))
        return missing if missing is not None else Coverage(name, match, name not in STOP_STRINGS, reason, dated=name in DATED)


def _expected() -> set[str]:
    """Names of the tested commit's renderers that rows and variants use: known also where the cookbook isn't installed."""
    return {row.renderer for row in FAMILIES} | {name for pair in THINKING.values() for name in pair if name is not None}
