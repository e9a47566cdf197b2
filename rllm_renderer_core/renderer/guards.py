"""The guards of one resolved renderer, each made when it is first asked for.

Before the backend: ``_marker_text``, ``_turn_end``. Behind it: ``_span_encoding``, ``_nothing_dropped``, ``_parse_check``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..errors import ContractError
from ..guards.marker_text.marker_text import MarkerText
from ..guards.nothing_dropped.dropped import NothingDropped
from ..guards.parse_check.checking import ParseCheck
from ..guards.returned import checked_ids, checked_stop_strings
from ..guards.span_encoding.joined import SpanEncoding
from ..guards.turn_end.unfinished import TurnEndGuard
from ..normal_form.tokenizer import control_ids, eos_ids, id_limit, lock_of, without_cleanup
from ..plugin import Backend, Coverage, Query, RendererTraits, rendering_probes
from ..probing.format import Format
from ..probing.text import Decoder
from ..types import Renderer
from .resolution import Resolution


class Guards:
    """What ``ResolvedRenderer`` is made of: its backend's renderer, and what is checked before and behind that."""

    def __init__(
        self,
        backend: Backend,
        query: Query,
        coverage: Coverage,
        resolution: Resolution,
        marker_text: str = "allow",
        parse_check: bool = True,
    ) -> None:
        self._tokenizer = without_cleanup(query.tokenizer)
        self._marker_text = None if marker_text == "allow" else MarkerText(marker_text, self._tokenizer)
        given = self._tokenizer if self._marker_text is None else self._marker_text.tokenizer
        self.upstream = backend.create(replace(query, tokenizer=given), coverage)
        if not isinstance(self.upstream, Renderer):
            raise ContractError(f"backend {backend.name!r} created a {type(self.upstream).__name__}, which isn't a Renderer")
        self.resolution, self.query, self.tokenizer = resolution, query, query.tokenizer
        self.backend, self.name, self.has_bridge = resolution.backend, resolution.renderer, resolution.has_bridge
        self.by_template, self._label = coverage.by_template, f"{self.backend}:{self.name}"
        self._literal, self._logged = marker_text == "literal", set[str]()
        self._made_of = (backend, query, coverage, marker_text, parse_check)
        self._lock = lock_of(query.tokenizer)
        self._limit = id_limit(query.tokenizer)
        with self._lock:
            self.traits = RendererTraits.of(self.upstream)
            if self._marker_text is not None:
                self._marker_text.prove(self.upstream, self._label)
        if not self.traits.lazy_stops:
            _ = self.more_stops, self.stop_strings  # wrong ones are refused here

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
        return TurnEndGuard(self._format, self.more_stops)

    @cached_property
    def _span_encoding(self) -> SpanEncoding | None:
        wanted = self.traits.encodes_spans_apart
        return SpanEncoding(self.upstream.render_ids, self._tokenizer, self._lock) if wanted else None

    @cached_property
    def _nothing_dropped(self) -> NothingDropped:
        decode = getattr(self.query.tokenizer, "decode", None)
        mode = self.resolution.options.get("dropped", "error")
        return NothingDropped(self.upstream.render_ids, decode, self._label, self._lock, mode)

    @cached_property
    def _parse_check(self) -> ParseCheck | None:
        if not self._made_of[-1] or not callable(getattr(self._tokenizer, "decode", None)):
            return None
        decoder = self._format.decoder
        return ParseCheck(self._format, self._tokenizer, self.traits, lambda messages: decoder.text(self._probe(messages)))
