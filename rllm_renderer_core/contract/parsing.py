"""Completions on the way back, whichever backend parses: never an exception, checked against the ids, an id for every call."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..errors import ToolError
from ..types import ParsedResponse, Renderer, Termination, ToolCallStatus
from .checking import ParseCheck, changed, judged
from .marker_text import MarkerText
from .messages import normalize_tools
from .returned import checked_parsed
from .rewriting import QUESTION

logger = logging.getLogger("rllm_renderer")

GENERATED_ID = "call_"
"""How the ids start that calls of a format without ids get."""


class ParseGuard:
    """``parse_response`` of one backend's renderer, under the core's contract.

    Args:
        upstream: The backend's renderer.
        name: ``backend:renderer``, for what is logged.
        lock: Held while ``upstream`` parses.
        text: What became of control tokens that message text spells.
        check: The parse contract; ``None`` leaves it out.
        more_stops: Ids at which sampling stops too, though they close no turn of the format: the tokenizer's end of sequence.
    """

    def __init__(
        self,
        upstream: Renderer,
        name: str,
        lock: Any,
        text: MarkerText,
        check: ParseCheck | None = None,
        *,
        more_stops: frozenset[int] = frozenset(),
    ) -> None:
        self._upstream, self._name, self._lock, self._text, self._check = upstream, name, lock, text, check
        self.more_stops = more_stops

    def parse(self, ids: list[int], tools: Sequence[Any] | None, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        """A completion, parsed and checked, each call with an id: the format's own, or one generated from the completion."""
        if not self.more_stops.isdisjoint(ids):
            return self._ended(ids, tools, prompt_ids)
        return self._parsed(ids, tools, prompt_ids)

    def _parsed(
        self, ids: list[int], tools: Sequence[Any] | None, prompt_ids: Sequence[int] | None, *, ended: bool = False
    ) -> ParsedResponse:
        out = self.parse_native(ids, tools, prompt_ids)
        if self._check is not None and out.lossless:
            with self._lock:
                prompt = self.opener if prompt_ids is None else prompt_ids
                out = self._check.checked(ids, out, prompt, ended=ended)
        calls = [
            call if call.id is not None else changed(call, id=_generated_id(ids, at)) for at, call in enumerate(out.tool_calls)
        ]
        return replace(out, tool_calls=calls)

    def _ended(self, ids: list[int], tools: Sequence[Any] | None, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        """A completion that the tokenizer's end of sequence ends, which upstream would take for content: parsed without it."""
        at = next(index for index, token in enumerate(ids) if token in self.more_stops)
        out = self._parsed(ids[:at], tools, prompt_ids, ended=True)
        if at < len(ids) - 1:
            return replace(out, termination=Termination.MALFORMED, lossless=False, loss="ids follow the end of sequence")
        whole = out.reasoning_complete and all(call.status is ToolCallStatus.OK for call in out.tool_calls)
        ended = Termination.STOP if whole else Termination.MALFORMED
        return replace(out, termination=ended if out.termination is Termination.TRUNCATED else Termination.MALFORMED)

    def parse_native(
        self, ids: list[int], tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion, parsed, not checked, with the ids of calls that the format itself has; ``None`` where it has none.

        The cost of a check is left out where the parse only helps a bridge, which acts on no argument.
        """
        try:
            declared = normalize_tools(tools)
        except ToolError:
            declared = None
        try:
            with self._lock:
                prompt = self.opener if prompt_ids is None else prompt_ids
                out = self._upstream.parse_response(ids, tools=declared, prompt_ids=prompt)
            out = self._text.parsed(checked_parsed(out, self._name))
            return replace(out, tool_calls=[judged(call, declared) for call in out.tool_calls])
        except (Exception, SystemExit) as error:
            return self.unreadable(error, ids)

    @cached_property
    def opener(self) -> list[int] | None:
        """What a completion is parsed behind where no prompt is given: the renderer's own prompt of a user's message."""
        try:
            return list(self._upstream.render_ids([dict(QUESTION)], add_generation_prompt=True))
        except Exception:  # a format that wants more than a user's message
            return None

    def unreadable(self, error: BaseException, ids: Sequence[int] = ()) -> ParsedResponse:
        """What can't be parsed: its text, as far as that can be had, with the reason as its ``loss``; logged."""
        logger.warning("%s can't parse a completion: %s: %s", self._name, type(error).__name__, error)
        why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        text = "" if self._check is None else self._check.text(ids)
        return ParsedResponse(text, termination=Termination.MALFORMED, lossless=False, loss=why)


def _generated_id(ids: list[int], at: int) -> str:
    """An id for a call of a format that has none: the same for the same completion, so that nothing depends on chance."""
    digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
    return f"{GENERATED_ID}{digest[:16]}_{at}"
