"""A learned format of assistant turns, and how a completion is parsed with it.

A completion is taken to be::

    [reasoning opener] reasoning [reasoning close] [content opener] content [content close] calls stop

where each part may be absent, and the opener of the reasoning may stand in the prompt.
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
    """The literals of a turn. Text is as ``IdText`` shows it.

    Attributes:
        stops: The characters of stops.
        opener: What the generation prompt always ends with, from its first control id on, which may close the turn before.
        begins: Of that, what is the assistant's turn alone.
        reasoning_open, reasoning_close: Around reasoning; empty where none is shown.
        prompt_opens: Whether the generation prompt opens the reasoning.
        content_opens: Literals that may open content; the first that stands there is left out.
        content_close: Behind content, before a stop.
        gap: White space (or more) between content and calls.
        calls: How calls are written; ``None`` where that isn't proven.
    """

    stops: frozenset[str]
    opener: str = ""
    begins: str = ""
    reasoning_open: str = ""
    reasoning_close: str = ""
    prompt_opens: bool = False
    content_opens: tuple[str, ...] = ()
    content_close: str = ""
    gap: str = ""
    calls: CallSection | None = None

    def __post_init__(self) -> None:
        frame = (self.reasoning_open, self.reasoning_close, *self.content_opens, self.content_close, *self.stops)
        self.frame = frame
        self._structural = controls(*frame) | (self.calls.structural if self.calls else set())
        self._reasoning_close = re.compile(pattern(core(self.reasoning_close)))
        self._reasoning_open = re.compile(r"\s*" + pattern(core(self.reasoning_open)))

    def opened_by(self, prompt: str) -> bool:
        """Whether a prompt ends inside reasoning, opened by the template or by a caller who wrote its beginning."""
        turn = prompt.rfind(self.begins) if self.begins else -1
        if not self._ends_inside_reasoning(prompt[max(turn, 0) :]):
            return False
        return turn >= 0 or self.stops.isdisjoint(prompt[prompt.rfind(core(self.reasoning_open)) :])

    def _ends_inside_reasoning(self, text: str) -> bool:
        opener = core(self.reasoning_open)
        at = text.rfind(opener) if opener and core(self.reasoning_close) else -1
        return at >= 0 and self._reasoning_close.search(text, at + len(opener)) is None

    def closes_reasoning(self, text: str) -> bool:
        """Whether a text starts with what closes reasoning."""
        return self._reasoning_close.match(text) is not None

    def parse(self, text: str, opened: bool, tools: Sequence[Any] | None, special: Set[str] = frozenset()) -> Turn:
        """A completion, parsed.

        Args:
            text: As ``IdText`` shows it.
            opened: Whether the prompt ends inside reasoning.
            tools: Declarations in normal form, ``None`` where none are known.
            special: Characters of control ids that never are part of a text.
        """
        body, rest = until_stop(text, self.stops)
        reasoning, body, complete = self._split(body, opened)
        content, calls = self._contents(body, tools)
        # Reasoning may sketch a call. Else a control id of the frame in a text is a broken structure.
        sketched = self.calls.structural - controls(*self.frame) if self.calls else set()
        inside = (controls(reasoning or "") - sketched) | controls(content)
        fine = complete and len(rest) == 1 and inside.isdisjoint(self._structural | special)
        termination = Termination.STOP if fine else Termination.MALFORMED
        return Turn(
            reasoning if reasoning and reasoning.strip() else None,
            content,
            calls,
            termination if rest else Termination.TRUNCATED,
            complete,
        )

    def _split(self, body: str, opened: bool) -> tuple[str | None, str, bool]:
        """Reasoning, the rest, and whether the reasoning is complete."""
        if not core(self.reasoning_close):
            return None, body, True
        start = 0
        if not opened and core(self.reasoning_open) and (found := self._reasoning_open.match(body)):
            opened, start = True, found.end()
        elif not opened and (found := self._reasoning_close.match(body, len(lead(body)))):
            opened, start = True, found.start()
        if not opened:
            return None, body, True
        before = trail(self.reasoning_open) if start else ""
        found = self._reasoning_close.search(body, start)
        if found is None:
            return trimmed(body[start:], before, lead(self.reasoning_close)), "", False
        reasoning = trimmed(body[start : found.start()], before, lead(self.reasoning_close))
        return reasoning, trimmed(body[found.end() :], trail(self.reasoning_close), ""), True

    def _contents(self, text: str, tools: Sequence[Any] | None) -> tuple[str, list[Attempt]]:
        """Content and calls. Content before, between and behind calls is joined."""
        pieces: list[str] = []
        calls: list[Attempt] = []
        at = 0
        gap = lead(self.gap) if core(self.gap) else self.gap
        for section in self.calls.sections(text, tools) if self.calls else ():
            pieces.append(self._content(text[at : section.start], gap))
            if self._ends_inside_reasoning(text[: section.start]):
                for attempt in section.attempts:  # a draft, which is never executed
                    if attempt.status is ToolCallStatus.OK:
                        attempt.status = ToolCallStatus.MALFORMED_STRUCTURE
            calls += section.attempts
            at = section.end
        return "".join((*pieces, self._content(text[at:], ""))), calls

    def _content(self, text: str, gap: str) -> str:
        for opener in self.content_opens:
            if found := re.compile(r"\s*" + pattern(core(opener))).match(text):
                text = trimmed(text[found.end() :], trail(opener), "")
                break
        text = trimmed(text, "", gap)
        closing = core(self.content_close)
        if closing and text.rstrip().endswith(closing):
            text = trimmed(text.rstrip()[: -len(closing)], "", lead(self.content_close))
        return text if text.strip() else ""
