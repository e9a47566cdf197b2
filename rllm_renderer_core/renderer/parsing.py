"""Completions on the way back, whichever backend parses: never an exception, checked against the ids, an id for every call."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..guards.marker_text.markers import without_guards
from ..guards.parse_check.checking import ParseCheck, changed, judged
from ..normal_form.declarations import Declarations, Declared
from ..normal_form.returned import checked_parsed
from ..probing.calls import QUESTION
from ..types import ParsedResponse, Renderer, Termination, ToolCallStatus

logger = logging.getLogger("rllm_renderer")

BROKEN = frozenset(
    {
        ToolCallStatus.INVALID_JSON,
        ToolCallStatus.UNCLOSED_BLOCK,
        ToolCallStatus.MISSING_NAME,
        ToolCallStatus.MALFORMED_STRUCTURE,
    }
)
"""Statuses of calls that don't have the format's form, whatever the tools are."""
GENERATED_ID = "call_"
"""How the ids start that calls of a format without ids get."""


class ParseGuard:
    """``parse_response`` of one backend's renderer, under the core's contract.

    Args:
        upstream: The backend's renderer.
        name: ``backend:renderer``, for what is logged.
        lock: Held while ``upstream`` parses.
        check: The parse contract; ``None`` leaves it out.
        more_stops: Ids at which sampling stops too, though they close no turn of the format: the tokenizer's end of sequence.
        marked: Makes the same renderer on a tokenizer that marks the control tokens which were sampled as ordinary tokens.
    """

    def __init__(
        self,
        upstream: Renderer,
        name: str,
        lock: Any,
        check: ParseCheck | None = None,
        *,
        more_stops: frozenset[int] = frozenset(),
        marked: Callable[[], Renderer] | None = None,
    ) -> None:
        self._upstream, self._name, self._lock, self._check = upstream, name, lock, check
        self._declarations = Declarations(name)
        self.more_stops = more_stops
        self._make_marked = marked

    def parse(self, ids: list[int], tools: Sequence[Any] | None, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        """A completion, parsed and checked, each call with an id: the format's own, or one generated from the completion."""
        declared = self._declarations.usable(tools)
        if not self.more_stops.isdisjoint(ids):
            return self._ended(ids, declared, prompt_ids)
        return self._parsed(ids, declared, prompt_ids)

    def _parsed(
        self, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None, *, ended: bool = False
    ) -> ParsedResponse:
        out = self._checked(self._native(ids, tools, prompt_ids), ids, tools, prompt_ids, ended)
        if not out.lossless and self.second is not None:
            second = self._read(self.second, ids, tools, prompt_ids)
            out = _better(out, self._checked(second, ids, tools, prompt_ids, ended))
        if not out.lossless and self._spells(ids):
            marked = self._checked(self._read(self.marked, ids, tools, prompt_ids), ids, tools, prompt_ids, ended)
            out = marked if marked.lossless else out
        calls = [
            call if call.id is not None else changed(call, id=_generated_id(ids, at)) for at, call in enumerate(out.tool_calls)
        ]
        return replace(out, tool_calls=calls)

    def _checked(
        self, out: ParsedResponse, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None, ended: bool
    ) -> ParsedResponse:
        if self._check is None or not out.lossless:
            return out
        prompt = self.opener if prompt_ids is None else prompt_ids
        try:
            with self._lock:
                return self._check.checked(ids, out, prompt, tools, ended=ended)
        except Exception as error:  # a tokenizer that can't decode what it has, nesting too deep for a check
            return replace(self.unreadable(error, ids), reasoning_complete=out.reasoning_complete)

    def _ended(self, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None) -> ParsedResponse:
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

        The cost of a check is left out where the parse only helps a bridge, which acts on no argument. Where the backend gives
        up on a call, or leaves control tokens in the content, its second parser is asked.
        """
        return self._native(ids, self._declarations.usable(tools), prompt_ids)

    def _native(self, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        out = self._read(self._upstream, ids, tools, prompt_ids)
        broken = any(call.status in BROKEN for call in out.tool_calls)
        if (broken or (not out.tool_calls and self._leaves_marks(ids, out))) and self.second is not None:
            out = _better(out, self._read(self.second, ids, tools, prompt_ids))
        if out.tool_calls and self._spells(ids):
            marked = self._read(self.marked, ids, tools, prompt_ids)
            return marked if marked.lossless else out
        return out

    def _spells(self, ids: Sequence[int]) -> bool:
        """Whether ordinary tokens spell a control token, and there is a parser that doesn't take them for it."""
        return self._check is not None and self._check.spells(ids) and self.marked is not None

    @cached_property
    def marked(self) -> Any:
        """The parser for completions in which ordinary tokens spell a control token: there it is text. ``None``: there is none.

        Not the first one that is asked, as such completions are rare and it costs a decoding token by token.
        """
        try:
            with self._lock:
                return None if self._make_marked is None else self._make_marked()
        except Exception:  # a tokenizer that doesn't tell its control tokens
            return None

    def _leaves_marks(self, ids: Sequence[int], out: ParsedResponse) -> bool:
        return self._check is not None and self._check.marks_in(ids, out.content)

    @cached_property
    def second(self) -> Any:
        """What the backend has beside its own parser for completions that this gives up on; ``None`` where it has nothing."""
        try:
            with self._lock:
                found = getattr(self._upstream, "second_parser", None)
                return found if found is not None and found.parses_tool_calls else None
        except Exception:  # what can't be learned is no second parser
            return None

    def _read(self, parser: Any, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        try:
            with self._lock:
                prompt = self.opener if prompt_ids is None else prompt_ids
                out = parser.parse_response(ids, tools=tools, prompt_ids=prompt)
            out = without_guards(checked_parsed(out, self._name))
            calls = [judged(call, tools) for call in out.tool_calls]
            broken = out.termination is Termination.STOP and any(call.status in BROKEN for call in calls)
            return replace(out, tool_calls=calls, termination=Termination.MALFORMED if broken else out.termination)
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


def _better(one: ParsedResponse, other: ParsedResponse) -> ParsedResponse:
    """The one that read more: calls that can run, calls of the format's form, attempts; and of two alike the lossless one."""
    if other.lossless < one.lossless:
        return one
    return other if (_reads(other), other.lossless) > (_reads(one), one.lossless) else one


def _reads(out: ParsedResponse) -> tuple[int, int, int]:
    whole = sum(call.status not in BROKEN for call in out.tool_calls)
    return len(out.runnable), whole, len(out.tool_calls)


def _generated_id(ids: list[int], at: int) -> str:
    """An id for a call of a format that has none: the same for the same completion, so that nothing depends on chance."""
    digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
    return f"{GENERATED_ID}{digest[:16]}_{at}"
