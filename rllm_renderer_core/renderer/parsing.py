"""``parse_response`` of a resolved renderer: never an exception, checked against the ids, an id for every tool call."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Any

from ..errors import RendererError
from ..guards.marker_text.marked import MarkedTokenizer
from ..guards.marker_text.markers import without_guards
from ..guards.parse_check.checking import changed, checked_parsed, judged
from ..normal_form.pairing import GENERATED_ID
from ..normal_form.tools import Declared, normalize_tools
from ..probing.calls import QUESTION
from ..types import ParsedResponse, Termination, ToolCallStatus
from .guards import Guards

logger = logging.getLogger("rllm_renderer")

BROKEN = frozenset(ToolCallStatus) - {ToolCallStatus.OK, ToolCallStatus.UNKNOWN_TOOL, ToolCallStatus.INVALID_ARGUMENT}
"""Statuses of calls that don't have the format's form, whatever the tools are."""


class Parsing(Guards):
    """The parsers of a backend's renderer: its own, and those that are asked where it gives up."""

    def _parse(self, ids: list[int], tools: Sequence[Any] | None, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        """A completion, parsed and checked, each call with an id: the format's own, or one generated from the completion."""
        declared = self._usable(tools)
        if self.more_stops.isdisjoint(ids):
            return self._parsed(ids, declared, prompt_ids)
        # The tokenizer's end of sequence ends it, which upstream would take for content: parsed without it.
        at = next(index for index, token in enumerate(ids) if token in self.more_stops)
        parsed = self._parsed(ids[:at], declared, prompt_ids, ended=True)
        if at < len(ids) - 1:
            return replace(parsed, termination=Termination.MALFORMED, lossless=False, loss="ids follow the end of sequence")
        whole = parsed.reasoning_complete and all(call.status is ToolCallStatus.OK for call in parsed.tool_calls)
        ended = Termination.STOP if whole and parsed.termination is Termination.TRUNCATED else Termination.MALFORMED
        return replace(parsed, termination=ended)

    def _parse_native(self, ids: list[int], tools: Declared = None, prompt_ids: Sequence[int] | None = None) -> ParsedResponse:
        """A completion, parsed, not checked, with the ids of calls that the format itself has; ``None`` where it has none.

        The cost of a check is left out where the parse only helps a bridge, which acts on no argument. Where the backend gives
        up on a call, or leaves special tokens in the content, its second parser is asked.
        """
        parsed = self._native(ids, tools, prompt_ids)
        if parsed.tool_calls and self._spells(ids):
            marked = self._read(self._marked, ids, tools, prompt_ids)
            return marked if marked.lossless else parsed
        return parsed

    def _native(self, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        parsed = self._read(self.upstream, ids, tools, prompt_ids)
        if parsed.tool_calls:
            gives_up = any(call.status in BROKEN for call in parsed.tool_calls)
        else:
            gives_up = self._parse_check is not None and self._parse_check.marks_in(ids, parsed.content)
        if gives_up and self._second is not None:
            parsed = _better(parsed, self._read(self._second, ids, tools, prompt_ids))
        return parsed

    def _parsed(
        self, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None, *, ended: bool = False
    ) -> ParsedResponse:
        parsed = self._checked(self._native(ids, tools, prompt_ids), ids, tools, prompt_ids, ended)
        if not parsed.lossless and self._second is not None:
            second = self._read(self._second, ids, tools, prompt_ids)
            parsed = _better(parsed, self._checked(second, ids, tools, prompt_ids, ended))
        if not parsed.lossless and self._spells(ids):
            marked = self._checked(self._read(self._marked, ids, tools, prompt_ids), ids, tools, prompt_ids, ended)
            parsed = marked if marked.lossless else parsed
        if all(call["id"] is not None for call in parsed.tool_calls):
            return parsed
        # Made from the completion, so that nothing depends on chance: the same for the same completion.
        digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]
        calls = [
            call if call["id"] is not None else changed(call, id=f"{GENERATED_ID}{digest}_{at}")
            for at, call in enumerate(parsed.tool_calls)
        ]
        return replace(parsed, tool_calls=calls)

    def _checked(
        self, parsed: ParsedResponse, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None, ended: bool
    ) -> ParsedResponse:
        if self._parse_check is None or not parsed.lossless:
            return parsed
        prompt = self._generation_prompt if prompt_ids is None else prompt_ids
        try:
            with self._lock:
                return self._parse_check.checked(ids, parsed, prompt, tools, ended=ended)
        except Exception as error:  # a tokenizer that can't decode what it has, nesting too deep for a check
            return replace(self._unreadable(error, ids), reasoning_complete=parsed.reasoning_complete)

    def _read(self, parser: Any, ids: list[int], tools: Declared, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        """What a parser makes of a completion, its calls judged by their names and arguments."""
        try:
            with self._lock:
                prompt = self._generation_prompt if prompt_ids is None else prompt_ids
                parsed = checked_parsed(parser.parse_response(ids, tools=tools, prompt_ids=prompt), self._label)
            if self._literal or parser is self.__dict__.get("_marked"):  # a tokenizer that guards what is spelled
                parsed = without_guards(parsed)
            calls = [*map(judged, parsed.tool_calls, repeat(tools))]
            broken = parsed.termination is Termination.STOP and any(call.status in BROKEN for call in calls)
            return replace(parsed, tool_calls=calls, termination=Termination.MALFORMED if broken else parsed.termination)
        except (Exception, SystemExit) as error:
            return self._unreadable(error, ids)

    def _usable(self, tools: Sequence[Any] | None) -> Declared:
        """Declarations in normal form, without those that can't be used: why not is logged, once for each reason."""
        try:
            return normalize_tools(tools, self._leave_out)
        except RendererError as error:  # nothing that could be a list of declarations
            self._leave_out(error)
            return None

    def _leave_out(self, error: RendererError) -> None:
        reason = str(error).splitlines()[0]
        if reason not in self._logged and len(self._logged) < 64:
            self._logged.add(reason)
            logger.warning("%s parses without a declaration: %s", self._label, reason)

    # The parsers beside the backend's own

    @cached_property
    def _second(self) -> Any:
        """What the backend has for completions that its own parser gives up on; ``None`` where it has nothing."""
        try:
            with self._lock:
                found = self.traits.second_parser()
                return found if found is not None and found.parses_tool_calls else None
        except Exception:  # what can't be learned is no second parser
            return None

    def _spells(self, ids: Sequence[int]) -> bool:
        """Whether ordinary tokens spell a special token, and there is a parser that doesn't take them for it."""
        return self._parse_check is not None and self._parse_check.spells(ids) and self._marked is not None

    @cached_property
    def _marked(self) -> Any:
        """The parser for completions in which ordinary tokens spell a special token: there it is text. ``None``: there is none.

        Not the first one that is asked, as such completions are rare and it costs a decoding token by token.
        """
        if self._literal:
            return None
        backend, query, coverage, *_ = self._made_of
        try:
            with self._lock:
                return backend.create(replace(query, tokenizer=MarkedTokenizer(self._tokenizer)), coverage)
        except Exception:  # a tokenizer that doesn't tell its special tokens
            return None

    @cached_property
    def _generation_prompt(self) -> list[int] | None:
        """What a completion is parsed behind where no prompt is given: the renderer's own prompt of a user's message."""
        try:
            return list(self.upstream.render_ids([dict(QUESTION)], add_generation_prompt=True))
        except Exception:  # a format that wants more than a user's message
            return None

    def _unreadable(self, error: BaseException, ids: Sequence[int] = ()) -> ParsedResponse:
        """What can't be parsed: its text, as far as that can be had, with the reason as its ``loss``; logged."""
        logger.warning("%s can't parse a completion: %s: %s", self._label, type(error).__name__, error)
        why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        text = "" if self._parse_check is None else self._parse_check.text(ids)
        return ParsedResponse(text, termination=Termination.MALFORMED, lossless=False, loss=why)


def _better(one: ParsedResponse, other: ParsedResponse) -> ParsedResponse:
    """The one that read more: calls that can run, calls of the format's form, attempts; and of two alike the lossless one."""

    def reads(parsed: ParsedResponse) -> tuple[int, int, int]:
        whole = sum(call.status not in BROKEN for call in parsed.tool_calls)
        return len(parsed.runnable), whole, len(parsed.tool_calls)

    if other.lossless < one.lossless:
        return one
    return other if (reads(other), other.lossless) > (reads(one), one.lossless) else one
