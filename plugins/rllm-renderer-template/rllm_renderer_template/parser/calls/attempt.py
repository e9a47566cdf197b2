"""What the styles of writing calls have in common: a sample to learn from, and attempts as the result of parsing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.types import ToolCallStatus

from .notations import Arguments


class Declined(Exception):
    """What can't be learned or proven, and why."""


class BadCall(Exception):
    """No call can be read here; ``status`` says what is wrong."""

    def __init__(self, status: ToolCallStatus) -> None:
        super().__init__(status.value)
        self.status = status


@dataclass
class Attempt:
    """One call as it was read. ``end`` is where its own text ends, in a list of calls; the ``raw`` texts of a section, with the
    literals around them, are the section."""

    name: str
    arguments: Arguments
    id: str | None
    status: ToolCallStatus
    end: int | None = None
    raw: str = ""


@dataclass(frozen=True)
class Sample:
    """Renders of one call and of two, in which each name, id, key and value is a word of its own (see ``probes``)."""

    one: str
    low: int  # where the assistant's turn may begin in ``one``
    two: str | None  # ``None`` where no second call shows
    two_low: int  # behind the first call's value in ``two``


class CallStyle(ABC):
    """A learned way of writing calls."""

    label: str  # how arguments are written, for people
    start: int  # with ``end`` the span of the first call in the sample that this was learned from
    end: int
    name_in_id: bool = False  # whether a call shows its id alone, with the name in it (Kimi: functions.look:0)
    tail: str = ""  # "\n</tool_call>", what closes a call, as learned from the turn
    nests: bool = False  # whether values are written in tags of their own, which hold control ids (MiniMax-M3)

    @abstractmethod
    def parse(self, text: str, at: int, tools: Sequence[Any] | None) -> tuple[list[Attempt], int]:
        """The calls of the block that starts here, and where it ends.

        Raises:
            BadCall: None can be read.
        """

    @abstractmethod
    def starts(self, text: str, at: int) -> bool:
        """Whether a call may start here."""

    @abstractmethod
    def span_of_next(self, text: str, low: int, sample: Sample) -> tuple[int, int]:
        """Where the second call of the sample starts and ends.

        Raises:
            Declined: It isn't written like the first.
        """

    def covers(self, text: str, at: int, word: str) -> bool:
        """Whether the one JSON text that starts here, a list of calls, holds this word of the second call too."""
        return False
