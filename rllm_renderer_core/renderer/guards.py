"""The guards of one resolved renderer, each made when it is first asked for.

Before the backend: ``_marker_text``, ``_turn_end``. Behind it: ``_span_encoding``, ``_nothing_dropped``, ``_sampled_mask``, and
for parsed completions ``_parsing`` with its check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..guards.marker_text.marked import MarkedTokenizer
from ..guards.marker_text.marker_text import MarkerText
from ..guards.nothing_dropped.dropped import NothingDropped
from ..guards.parse_check.checking import ParseCheck
from ..guards.sampled_mask.mask import SampledMask
from ..guards.span_encoding.joined import SpanEncoding
from ..guards.turn_end.unfinished import TurnEndGuard
from ..guards.returned import checked_ids, checked_stop_strings
from ..normal_form.tokenizer import control_ids, eos_ids, without_cleanup
from ..plugin import Backend, Coverage, Query, RendererTraits, rendering_probes
from ..probing.format import Format
from ..probing.text import Decoder
from ..types import Renderer
from .parsing import Parsing


class Guards:
    """What ``ResolvedRenderer`` checks before and behind its backend.

    Attributes:
        upstream: The backend's renderer.
        traits: What it says of itself.
        backend, name: Names of the backend and of its renderer.
        query: What it was made by.
    """

    upstream: Renderer
    traits: RendererTraits
    backend: str
    name: str
    query: Query
    _limit: int | None
    _lock: Any
    _marker_text: MarkerText | None
    _made_of: tuple[Backend, Query, Coverage, str, bool]
    _dropped: str

    def render_ids(
        self, messages: Sequence[Any], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        raise NotImplementedError

    @cached_property
    def stops(self) -> frozenset[int]:
        """The format's own stop ids."""
        with self._lock:
            return frozenset(checked_ids(self.upstream.get_stop_token_ids(), self.backend, "get_stop_token_ids"))

    @cached_property
    def stop_strings(self) -> list[str]:
        """The format's stops that aren't one id."""
        return checked_stop_strings(self.traits.stop_strings, self.backend)

    @cached_property
    def more_stops(self) -> frozenset[int]:
        """Ids at which sampling stops too, though they close no turn of the format: the tokenizer's end of sequence."""
        return frozenset(eos_ids(self.query.tokenizer)) - self.stops

    @cached_property
    def _drops_old_reasoning(self) -> bool:
        return self.query.thinking_retention == "tool_cycle"

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer, with a ``decode`` that leaves spaces as they are."""
        return without_cleanup(self.query.tokenizer)

    def _probe(self, messages: list[dict[str, Any]]) -> Sequence[int]:
        """A probe conversation through the backend's renderer alone."""
        prepared = messages if self._marker_text is None else self._marker_text.messages(messages)
        with self._lock, rendering_probes():
            return self.upstream.render_ids(prepared)

    @cached_property
    def _format(self) -> Format:
        decoder = Decoder(self._tokenizer, control_ids(self._tokenizer) | self.stops)
        return Format(self._probe, decoder, self._tokenizer, self.stops, self.traits.reasoning_ids)

    @cached_property
    def _turn_end(self) -> TurnEndGuard:
        return TurnEndGuard(self._format)

    @cached_property
    def _span_encoding(self) -> SpanEncoding | None:
        if not self.traits.encodes_spans_apart:
            return None
        return SpanEncoding(self.upstream.render_ids, self._tokenizer, self._lock)

    @cached_property
    def _nothing_dropped(self) -> NothingDropped:
        decode = getattr(self.query.tokenizer, "decode", None)
        name = f"{self.backend}:{self.name}"
        return NothingDropped(self.upstream.render_ids, decode, name, self._lock, self._dropped)

    @cached_property
    def _sampled_mask(self) -> SampledMask:
        return SampledMask(self.render_ids, self.stops)

    @cached_property
    def _parsing(self) -> Parsing:
        backend, query, coverage, marker_text, parse_check = self._made_of
        check = None
        if parse_check and callable(getattr(self._tokenizer, "decode", None)):
            decoder = self._format.decoder
            check = ParseCheck(self._format, self._tokenizer, self.traits, lambda ms: decoder.text(self._probe(ms)))

        def marked() -> Renderer:
            return backend.create(replace(query, tokenizer=MarkedTokenizer(self._tokenizer)), coverage)

        name = f"{self.backend}:{self.name}"
        making = marked if marker_text != "literal" else None
        return Parsing(self.upstream, self.traits, name, self._lock, check, more_stops=self.more_stops, marked=making)
