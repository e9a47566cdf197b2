"""The backend: which models it covers, and how they come to their renderer. Light: ``create`` imports the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import ClassVar

from rllm_renderer_core.normal_form.tokenizer import added_tokens, chat_template
from rllm_renderer_core.plugin import Backend, Coverage, Match, Query, Unavailable
from rllm_renderer_core.types import Renderer

from .installed import UPSTREAM, installed_upstream

DATED = {"gpt-oss": ("conversation_start_date", "%Y-%m-%d"), "llama-3": ("date_string", "%d %b %Y")}
"""Families whose preamble holds a date: the template field and its form."""

_V3 = "the template leaves a turn with one call open, and a result before a query, and forgets the markers of later rounds"
_HARMONY = "the reference is openai_harmony, which serves: no blank lines behind instructions, no quotation marks on results"
DEVIATIONS: Mapping[str, Mapping[str, str]] = {
    "deepseek-v3": {"calls": _V3},
    "deepseek-r1": {"a query right behind a result": "the template leaves the result open there"},
    "gpt-oss": dict.fromkeys(
        ("system", "order", "reasoning", "calls", "tools", "whitespace", "no generation prompt"), _HARMONY
    ),
    "kimi-k2.5": {"tools": "the model's tokenizer class writes the tools as TypeScript; the template alone writes JSON"},
}
"""Where a family's renderer differs from the chat template on purpose: probes or their tags."""


class PrimeBackend(Backend):
    """Models that the installed ``renderers`` lists by their exact name, and any model whose family the user names."""

    name: ClassVar[str] = "prime"
    priority: ClassVar[int] = 100
    options: ClassVar[frozenset[str]] = frozenset({"thinking", "chat_template_kwargs", "image_processor"})
    spellings: ClassVar[frozenset[str]] = frozenset({"renderer_family"})
    upstream: ClassVar[tuple[str, ...]] = (UPSTREAM,)

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        """By the family's name where the user gave one, else by exact membership in upstream's ``MODEL_RENDERER_MAP``."""
        found = installed_upstream()
        if found is None:
            if query.renderer is not None:
                return None
            return Unavailable(f"the package {UPSTREAM!r} isn't installed", f"pip install {UPSTREAM}")
        if query.renderer is not None:
            family, match, reason = query.renderer, Match.NAMED, "named by the user"
            if family not in found.families:
                return None
        else:
            listed = found.models.get(query.model)
            if listed is None:
                return None
            family, match, reason = listed, Match.EXACT, "listed in MODEL_RENDERER_MAP"
        return self._coverage(query, family, match, reason)

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """The family's renderer on ``query.tokenizer``.

        Raises:
            OptionError: For an option, a template keyword or a value that this family doesn't have.
            TokenizerError: For a tokenizer without the family's control tokens, or a missing vocabulary file (gpt-oss).
        """
        from .factory import create_renderer

        return create_renderer(query, coverage)

    def renderer_names(self) -> Iterable[str]:
        found = installed_upstream()
        return () if found is None else found.families

    def models(self) -> Iterable[str]:
        found = installed_upstream()
        return () if found is None else found.models

    def candidates(self, query: Query) -> Iterable[Coverage]:
        """Every family, but gpt-oss only on harmony's vocabulary: its renderer builds one of its own before it looks."""
        harmony = query.tokenizer is None or "<|channel|>" in added_tokens(query.tokenizer)
        families = [name for name in self.renderer_names() if name != "gpt-oss" or harmony]
        return [self._coverage(query, name, Match.PARITY, "its ids equal the tokenizer's template") for name in families]

    def deviations(self, coverage: Coverage) -> Mapping[str, str]:
        return DEVIATIONS.get(coverage.renderer, {})

    def _coverage(self, query: Query, family: str, match: Match, reason: str) -> Coverage:
        data, found, template = None, installed_upstream(), chat_template(query.tokenizer) or ""
        listed = found is not None and found.models.get(query.model) == family
        # A template without a clock, such as Llama 3.1's, has a date of its own, which is upstream's default too.
        if family in DATED and (listed or not template or "strftime_now" in template):
            field, form = DATED[family]
            data = {field: date.fromisoformat(query.date).strftime(form)}
        return Coverage(renderer=family, match=match, has_bridge=True, reason=reason, data=data, dated=data is not None)
