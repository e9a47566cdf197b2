"""The backend: which models it covers, by which renderer, and how a renderer is made."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import ClassVar

from rllm_renderer_core.plugin import Backend, Coverage, Match, Query, Unavailable
from rllm_renderer_core.types import Renderer

from . import catalog
from .factory import build, no_such_variant, text_alone

UPSTREAM = "tinker-cookbook"
BASE_MODEL_RENDERER = "role_colon"


class TinkerBackend(Backend):
    """Whatever ``tinker_cookbook.model_info`` of the installed version recommends a renderer for."""

    name: ClassVar[str] = "tinker"
    priority: ClassVar[int] = 50
    options: ClassVar[frozenset[str]] = frozenset({"thinking", "image_processor"})
    spellings: ClassVar[frozenset[str]] = frozenset({"renderer_name"})
    upstream: ClassVar[tuple[str, ...]] = (UPSTREAM, "rllm-renderer-template")
    sources: ClassVar[Mapping[str, str]] = {UPSTREAM: "tinker_cookbook.renderers"}

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        """By the renderer's name where the user gave one, else by upstream's recommendation for the model."""
        if importlib.util.find_spec("tinker_cookbook") is None:
            return Unavailable(f"{UPSTREAM} isn't installed", f"pip install {UPSTREAM}")
        if query.renderer is not None:
            return self._named(query, query.renderer)
        try:
            found = catalog.recommended(query.model)
        except ImportError as error:
            what = f"module {error.name!r}" if error.name else str(error)
            return Unavailable(f"{UPSTREAM} is installed but broken ({what})", f"pip install --force-reinstall {UPSTREAM}")
        if found is None:
            return None
        name, listed = found
        if name == BASE_MODEL_RENDERER:
            reason = "a base model, for which tinker_cookbook.model_info recommends role_colon: stop strings, no stop token"
        else:
            reason = f"{'listed in' if listed else 'named by a rule of'} tinker_cookbook.model_info"
        return self._coverage(query, name, Match.EXACT if listed else Match.FAMILY, reason)

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """The renderer on ``query.tokenizer``.

        Raises:
            OptionError: ``thinking`` where the family has no such variant, ``image_processor`` for a renderer of text.
        """
        if catalog.thinking_variant(coverage.renderer, query.thinking, catalog.builtin_names()) is None:
            raise no_such_variant(query.thinking, coverage.renderer, self.name)
        from .renderer import TinkerRenderer

        upstream = build(coverage.renderer, query.tokenizer, query.image_processor, query.model)
        if query.image_processor is not None and getattr(upstream, "image_processor", None) is not query.image_processor:
            raise text_alone(coverage.renderer, self.name)
        if coverage.dated:
            upstream.current_date = query.date
        return TinkerRenderer(upstream, coverage.renderer, query.tokenizer)

    def renderer_names(self) -> Iterable[str]:
        return sorted(catalog.builtin_names() | catalog.registered().keys())

    def models(self) -> Iterable[str]:
        return catalog.models() if importlib.util.find_spec("tinker_cookbook") is not None else ()

    def candidates(self, query: Query) -> Iterable[Coverage]:
        """Every renderer with a stop token, for tokenizers whose name nobody knows: the families first, then their variants."""
        if importlib.util.find_spec("tinker_cookbook") is None:
            return
        names = catalog.builtin_names() - {BASE_MODEL_RENDERER}
        for name in sorted(names, key=lambda name: (name != catalog.family(name) and catalog.family(name) in names, name)):
            found = self._coverage(query, name, Match.PARITY, "the tokenizer's template gives the same ids")
            if isinstance(found, Coverage) and found.renderer == name:
                yield found

    def _named(self, query: Query, name: str) -> Coverage | Unavailable | None:
        if name in catalog.builtin_names():
            return self._coverage(query, name, Match.NAMED, "named by the user")
        if name in catalog.registered():
            return self._coverage(query, name, Match.NAMED, "named by the user, registered in tinker_cookbook.renderers")
        return None

    def _coverage(self, query: Query, name: str, match: Match, reason: str) -> Coverage | Unavailable:
        missing = _missing_requirement(name)
        if missing is not None:
            return missing
        variant = catalog.thinking_variant(name, query.thinking, catalog.builtin_names())
        # Where there is no such variant, create refuses: the model is covered, the option isn't.
        name = variant or name
        return Coverage(name, match, name != BASE_MODEL_RENDERER, reason, dated=catalog.shows_date(name))


def _missing_requirement(name: str) -> Unavailable | None:
    """Upstream builds Inkling's renderer from a distribution that it doesn't require."""
    if name == "tml_v0" and importlib.util.find_spec("tml_renderers") is None:
        return Unavailable("renderer 'tml_v0' needs tml-renderers, which isn't installed", "pip install tml-renderers")
    return None
