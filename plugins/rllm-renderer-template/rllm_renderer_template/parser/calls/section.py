"""The calls of a turn: the delimiters around them (before, between, after) and the style of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rllm_renderer_core.types import ToolCallStatus

from ..id_text import CONTROL
from ..literals import atoms, common_start, controls, core, loose, pattern
from .attempt import Attempt, BadCall, CallStyle

_TAG = re.compile(r"<\S|\[\w+\]")


class CallSection:
    """Finds and reads the calls in a turn's text, each written in one style.

    Args:
        before: Stands before the first call, as ``<tool_call>\\n``; may be empty (bare JSON).
        between: Stands between two, as ``\\n</tool_call>\\n<tool_call>\\n``; ``None`` where a turn has one call or
            one list of calls.
        after: Stands behind the last, as ``\\n</tool_call>``.
        delimiters: The other ones of the turn, whose control ids don't belong in a value.
        marks: Characters of control ids behind which calls without an opening literal may start, in the middle of a text too.
    """

    def __init__(
        self, style: CallStyle, before: str, between: str | None, after: str, delimiters: Sequence[str], marks: str = ""
    ) -> None:
        self.style, self.before, self.between, self.after = style, before, between, after
        self.close = common_start([between, after]) if between is not None else after
        style.tail = self.close
        opening = core(before)
        first = atoms(opening)[0] if opening else ""
        marked = bool(CONTROL.match(first)) or first[:1] == "<"
        self.strong = bool(CONTROL.search(opening) or _TAG.match(opening))
        """Whether what opens calls is a control id or a tag. Else only a call of a declared tool is one."""
        self._bare = not opening
        bare = rf"\A\s*(?![\s{marks}])" + (rf"|[{marks}]\s*" if marks else "")
        self._trigger = re.compile((pattern(first if marked else opening)) if opening else bare)
        self._before, self._close = loose(before), loose(self.close)
        joined = pattern(core(self.close)) + r"\s*" + pattern(core(before))
        self._joint = re.compile(joined) if core(self.close) and opening else None
        following = "" if between is None else between[len(self.close) :]
        self._next = None if between is None else loose(following)
        self._after = loose(after[len(self.close) :])
        self.structural = controls(before, between or "", after, *delimiters)
        marked = bool(CONTROL.search(following)) or core(following)[:1] == "<"
        edges = core(self.close), core(after), core(following) if marked else "", opening
        self._resume = re.compile("|".join(pattern(edge) for edge in edges if edge) or r"\Z")

    def sections(self, text: str, tools: Sequence[Any] | None) -> Iterator[tuple[int, int, list[Attempt]]]:
        """Start, end and calls of every stretch of calls, in order. What opens weakly and holds no call of a declared tool is
        text."""
        declared = {tool["function"]["name"] for tool in tools or ()}
        at = 0
        while at <= len(text):
            found = self._trigger.search(text, at)
            if found is None:
                return
            attempts, end = self._section(text, found.start(), found.end() if self._bare else found.start(), tools)
            read = [call for call in attempts if call.status is ToolCallStatus.OK]
            if not self.strong:
                sure = declared and read == attempts and (not self._bare or all(call.name in declared for call in read))
                if not sure or (self._bare and text[end:].strip()):
                    at = found.end() + 1
                    continue
            for call in read:
                if not call.name:
                    call.status = ToolCallStatus.MISSING_NAME
                elif tools is not None and call.name not in declared:
                    call.status = ToolCallStatus.UNKNOWN_TOOL
            at = max(end, found.end())
            yield found.start(), at, attempts

    def _section(self, text: str, start: int, opens: int, tools: Sequence[Any] | None) -> tuple[list[Attempt], int]:
        """Calls from ``start`` on, what opens them from ``opens`` on, as long as one follows another; and where they end."""
        calls: list[Attempt] = []
        found = self._before.match(text, opens)
        at = found.end() if found else None
        while True:
            attempts, end, closed = self._block(text, start, at, tools)
            following = self._next.match(text, end) if self._next and closed else None
            if following is not None and not self._follows(text, end, following.end()):
                following = None
            if closed and following is None and (found := self._after.match(text, end)):
                end = found.end()
            for call in attempts:
                until = end if call is attempts[-1] or call.end is None else call.end
                call.raw, start = text[start:until], until
            calls += attempts
            if following is None:
                return calls, end
            at = following.end()

    def _block(self, text: str, start: int, at: int | None, tools: Sequence[Any] | None) -> tuple[list[Attempt], int, bool]:
        """The calls of one block and what closes it; whether it is closed."""
        try:
            if at is None:
                raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
            attempts, end = self.style.parse(text, at, tools)
        except BadCall as bad:
            found = self._resume.search(text, max(at or 0, start + 1))
            end = found.start() if found else len(text)
            cut = found is None and bool(core(self.close))
            attempts = [Attempt("", "", None, ToolCallStatus.UNCLOSED_BLOCK if cut else bad.status)]
        found = self._close.match(text, end)
        closed = found is not None or not core(self.close)
        if not closed and attempts[-1].status is ToolCallStatus.OK:  # the call's end, cut or broken: no content
            mark = self._resume.search(text, end)
            end = mark.start() if mark else len(text)
        for call in attempts:
            if call.status is ToolCallStatus.OK and not closed:
                call.status = ToolCallStatus.UNCLOSED_BLOCK
            elif call.status is ToolCallStatus.OK and self._garbled(call):
                call.status = ToolCallStatus.MALFORMED_STRUCTURE
        return attempts, found.end() if found else end, closed

    def _follows(self, text: str, end: int, at: int) -> bool:
        """Whether another call starts at ``at``, behind what stands between calls."""
        assert self.between is not None
        if at >= len(text) or (core(self.close) and at == end):
            return False
        return bool(core(self.close)) or bool(core(self.between)) or self.style.starts(text, at)

    def _garbled(self, call: Attempt) -> bool:
        """Whether a control id of the format stands in the name, or in arguments that nest (elsewhere quotes or a closing tag
        delimit a value); or a value lost its own close, and has a call's close and the next one's opening in it."""
        value = call.arguments
        nested = json.dumps(value, ensure_ascii=False) if self.style.nests else ""
        texts = [value] if isinstance(value, str) else [text for text in value.values() if isinstance(text, str)]
        joined = self._joint is not None and any(map(self._joint.search, texts))
        return joined or not self.structural.isdisjoint(controls(call.name, nested))
