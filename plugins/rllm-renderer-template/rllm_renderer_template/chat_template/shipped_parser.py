"""The ``response_template`` that a checkpoint ships, read by transformers' own engine (5.13 or later), where it is proven.

Proven is one by which the engine reads every probe turn back that a completion can make. It then reads the completions that
end as a turn does; what is cut off, malformed or refused by the engine is the learned parser's, as the engine has no words for
it. The parse contract checks both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_core.types import ParsedResponse, Termination, ToolCall

from ..parser.calls.attempt import Declined
from ..parser.learned import LearnedParser
from .response_template import engine, reasoning_of


class ShippedParser:
    """Parses by a shipped template, and by the learned parser what that doesn't read; ``prompt`` stands for one that is left
    out."""

    def __init__(self, template: Any, tokenizer: Any, learned: LearnedParser, prompt: Sequence[int]) -> None:
        self._template, self._tokenizer, self._learned, self._prompt = template, tokenizer, learned, prompt

    @cached_property
    def why_not(self) -> str | None:
        """Why it isn't used, ``None`` where it is proven."""
        try:
            misread = self._learned.misreads(self._template)
        except Declined as declined:
            return str(declined)
        return f"transformers' engine doesn't read back {', '.join(misread)}" if misread else None

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed; see ``Renderer``."""
        read, stops = None, self._learned.stop_ids
        if not stops.isdisjoint(token_ids[-1:]) and stops.isdisjoint(token_ids[:-1]):
            read = self._read(token_ids, tools, self._prompt if prompt_ids is None else self._learned.last_turn(prompt_ids))
        return read or self._learned.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)

    def _read(self, ids: Sequence[int], tools: Sequence[Any] | None, prompt: Sequence[int]) -> ParsedResponse | None:
        parse = engine()
        text, prefix = self._text(ids), self._text(prompt)
        try:
            assert parse is not None
            message = parse(text, self._template, prefix=prefix, tools=tools)
            calls = message.get("tool_calls") or ()
            parsed = [
                ToolCall(call["function"]["name"], call["function"]["arguments"], id=call.get("id"), raw=raw)
                for call, raw in zip(calls, self._raws(text, len(calls)), strict=True)
            ]
        except Exception:  # the engine's way of saying that a completion is broken
            return None
        return ParsedResponse(str(message.get("content") or ""), reasoning_of(message), parsed, Termination.STOP)

    def _raws(self, text: str, count: int) -> list[str]:
        """The stretches of a text that the template takes for calls.

        Raises:
            ValueError: They aren't as many.
        """
        from transformers.utils.chat_parsing.response_templates import (  # type: ignore[import-not-found,unused-ignore]
            load_response_template,
        )

        field, out, at = load_response_template(self._template).fields["tool_calls"] if count else None, [], 0
        while field is not None and (opened := field.open_re.search(text, at)):
            closed = field.close_re.search(text, opened.end()) if field.close_re is not None else None
            at = len(text) if closed is None else closed.end()
            out.append(text[opened.start() : at])
        if len(out) != count:
            raise ValueError("a template that takes several calls as one stretch")
        return out

    def _text(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
