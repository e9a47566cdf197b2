"""A learned format of assistant turns, and how a completion is parsed with it.

A completion is taken to be::

    [reasoning_open] reasoning [reasoning_close] [content_opens] content [content_close] calls stop
    <think>\n       why       \n</think>\n\n                    four                                <|im_end|>

where each part may be absent, and what opens the reasoning may stand in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.types import Termination, ToolCallStatus

from .calls.attempt import Attempt
from .calls.section import CallSection
from .literals import controls, core, lead, pattern, trail, trimmed, until_stop


@dataclass
class Turn:
    """A parsed completion, still with the characters of control ids in its texts."""

    reasoning: str | None
    content: str
    calls: list[Attempt]
    termination: Termination
    reasoning_complete: bool


@dataclass
class TurnFormat:
    """The delimiters of a turn, with the control tokens in them as ``IdText`` shows them.

    ``turn_opens`` is what of the generation prompt belongs to the assistant's turn alone: it may close the turn before.
    ``prompt_opens`` tells whether the generation prompt opens the reasoning. Of ``content_opens`` the first that stands before
    content is left out. ``calls`` is ``None`` where no way of writing them is proven.
    """

    stops: frozenset[str]  # {"<|im_end|>"}
    generation_prompt: str = ""  # "<|im_start|>assistant\n", from its first control token on
    turn_opens: str = ""  # "<|im_start|>assistant\n"
    reasoning_open: str = ""  # "<think>\n"
    reasoning_close: str = ""  # "\n</think>\n\n"
    prompt_opens: bool = False
    content_opens: tuple[str, ...] = ()  # ("<response>",)
    content_close: str = ""  # "</response>"
    gap: str = ""  # "\n" between "Let me see." and "<tool_call>"
    calls: CallSection | None = None  # "<tool_call>\n", then {"name": ..., "arguments": ...}, then "\n</tool_call>"

    def __post_init__(self) -> None:
        self._structural = controls(*self.delimiters) | (self.calls.structural if self.calls else set())
        self._reasoning_close = re.compile(pattern(core(self.reasoning_close)))
        self._reasoning_open = re.compile(r"\s*" + pattern(core(self.reasoning_open)))

    @property
    def delimiters(self) -> tuple[str, ...]:
        """Those around reasoning and content, with the stops."""
        return self.reasoning_open, self.reasoning_close, *self.content_opens, self.content_close, *self.stops

    def opened_by(self, prompt: str) -> bool:
        """Whether a prompt ends inside reasoning, opened by the template or by a caller who wrote its beginning."""
        turn = prompt.rfind(self.turn_opens) if self.turn_opens else -1
        if not self._ends_inside_reasoning(prompt[max(turn, 0) :]):
            return False
        return turn >= 0 or self.stops.isdisjoint(prompt[prompt.rfind(core(self.reasoning_open)) :])

    def _ends_inside_reasoning(self, text: str) -> bool:
        opening = core(self.reasoning_open)
        at = text.rfind(opening) if opening and core(self.reasoning_close) else -1
        return at >= 0 and self._reasoning_close.search(text, at + len(opening)) is None

    def parse(self, text: str, opened: bool, tools: Sequence[Any] | None, special: Set[str] = frozenset()) -> Turn:
        """A completion as ``IdText`` shows it, parsed. ``opened``: the prompt ends inside reasoning; ``special``: characters of
        control ids that never are part of a text."""
        body, rest = until_stop(text, self.stops)
        reasoning, body, complete = self._split(body, opened)
        content, calls = self._contents(body, tools)
        # Reasoning may sketch a call. Else a control id of the delimiters in a text is a broken structure.
        sketched = self.calls.structural - controls(*self.delimiters) if self.calls else set()
        inside = (controls(reasoning) - sketched) | controls(content)
        fine = complete and len(rest) == 1 and inside.isdisjoint(self._structural | special)
        termination = Termination.TRUNCATED if not rest else Termination.STOP if fine else Termination.MALFORMED
        return Turn(reasoning if reasoning.strip() else None, content, calls, termination, complete)

    def _split(self, body: str, opened: bool) -> tuple[str, str, bool]:
        """Reasoning, the rest, and whether the reasoning is complete."""
        start = 0 if opened else None
        if core(self.reasoning_close) and not opened:
            if core(self.reasoning_open) and (found := self._reasoning_open.match(body)):
                start = found.end()
            elif found := self._reasoning_close.match(body, len(lead(body))):
                start = found.start()
        if start is None or not core(self.reasoning_close):
            return "", body, True
        found = self._reasoning_close.search(body, start)
        written = body[start : found.start() if found else None]
        reasoning = trimmed(written, trail(self.reasoning_open) if start else "", lead(self.reasoning_close))
        return reasoning, trimmed(body[found.end() :], trail(self.reasoning_close), "") if found else "", found is not None

    def _contents(self, text: str, tools: Sequence[Any] | None) -> tuple[str, list[Attempt]]:
        """Content and calls. Content before, between and behind calls is joined."""
        content, at = "", 0
        calls: list[Attempt] = []
        gap = lead(self.gap) if core(self.gap) else self.gap
        for start, end, attempts in self.calls.sections(text, tools) if self.calls else ():
            content += self._content(text[at:start], gap)
            draft = self._ends_inside_reasoning(text[:start])  # it is never executed
            for call in attempts:
                if draft and call.status is ToolCallStatus.OK:
                    call.status = ToolCallStatus.MALFORMED_STRUCTURE
            calls += attempts
            at = end
        return content + self._content(text[at:], ""), calls

    def _content(self, text: str, gap: str) -> str:
        for opening in self.content_opens:
            if found := re.compile(r"\s*" + pattern(core(opening))).match(text):
                text = trimmed(text[found.end() :], trail(opening), "")
                break
        text = trimmed(text, "", gap)
        closing = core(self.content_close)
        if closing and text.rstrip().endswith(closing):
            text = trimmed(text.rstrip()[: -len(closing)], "", lead(self.content_close))
        return text if text.strip() else ""
