"""What the core asks of a backend's renderer beyond the protocol: one dataclass, read in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ContractError
from ..types import Renderer, ToolCall


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class RendererTraits:
    """Optional facts about a renderer: it has them in an attribute ``traits``; without one all are as here.

    What may have to be learned first is a function without arguments, called when it is needed, with the tokenizer's lock held.

    Attributes:
        stop_strings: Stops that aren't one id, for engines that stop at text: ``["\\n\\nUser:"]``.
        lazy_stops: Its stop ids cost renders, and are asked for when they are needed instead of at ``resolve``.
        takes_views: The previous prompt of a bridge may be a read-only sequence in place of a list, so that no long history is
            copied.
        supports_media: Image parts are carried.
        fills_result_names: Tool results without ``name`` get the name of their call. False for formats that show a name
            only where the client gives one (Kimi).
        encodes_spans_apart: It encodes a header and the text behind it in separate calls, by which BPE merges may differ
            from the chat template's (``assistant\\n`` + ``\\n\\nfour``): the core encodes such spans again, in one call.
        attribution_costs_renders: ``render`` finds ``message_indices`` and ``sampled_mask`` by further renders.
        reasoning_ids: The ids that open and close reasoning, where the backend knows them; ``()`` for a format without
            reasoning. ``None``: the core learns them from what is rendered.
        second_parser: A parser for completions that its own gives up on, or ``None``.
        written_calls: Tool calls to the text that the model writes for them, where its render doesn't show that (Kimi K3).
        delimiter_words: Words that the model writes beside special tokens, and no render shows (harmony's ``commentary``).
        why_no_tool_calls: Why tool calls can't be read out of completions, ``None`` where they can.
    """

    stop_strings: Sequence[str] = ()
    lazy_stops: bool = False
    takes_views: bool = False
    supports_media: bool = False
    fills_result_names: bool = True
    encodes_spans_apart: bool = False
    attribution_costs_renders: bool = False
    reasoning_ids: Callable[[], tuple[int, int] | tuple[()] | None] = _nothing
    second_parser: Callable[[], Any] = _nothing
    written_calls: Callable[[Sequence[ToolCall]], str] | None = None
    delimiter_words: frozenset[str] = frozenset()
    why_no_tool_calls: Callable[[], str | None] = _nothing

    @classmethod
    def of(cls, renderer: Renderer) -> RendererTraits:
        """Those of a backend's renderer: the only attribute that the core reads of it beside the protocol's methods."""
        found = getattr(renderer, "traits", cls())
        if not isinstance(found, cls):
            raise ContractError(f"traits of {type(renderer).__name__} must be RendererTraits, not {type(found).__name__}")
        return found
