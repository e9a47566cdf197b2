"""What a rollout is made of: unbroken sequences of ids, each with the turns that were sampled in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Turn:
    """One sampled completion within a segment.

    Attributes:
        start: Where it starts in the segment's ids.
        end: Where it ends, exclusive.
        logprobs: One for each of its ids, ``None`` where it isn't known; ``None`` where none was recorded.
        restored_stop: The last id is the stop at which the engine stopped and which it didn't return: see ``Rollout.record``.
        message: Index of its message in the segment's ``messages``.
    """

    start: int
    end: int
    logprobs: tuple[float | None, ...] | None = None
    restored_stop: bool = False
    message: int = -1


@dataclass
class Segment:
    """One unbroken sequence of ids for a trainer: each completion stands behind the very prompt that it was sampled from.

    Attributes:
        token_ids: Prompt and completions, in order.
        turns: The completions that were sampled in this segment, in order. Earlier completions that are part of its first
            prompt, rendered again, are none of them: they are trained in the segment where they were sampled.
        messages: The conversation that the ids are of, in normal form, with the assistant messages as parsed.
    """

    token_ids: list[int]
    turns: list[Turn] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def sampled_mask(self) -> list[bool]:
        """As long as ``token_ids``; ``True`` for each id that was sampled in this segment, and for no other. A new list."""
        mask = [False] * len(self.token_ids)
        for turn in self.turns:
            mask[turn.start : turn.end] = [True] * (turn.end - turn.start)
        return mask

    @property
    def logprobs(self) -> list[float | None]:
        """As long as ``token_ids``; the sampled ids' log-probabilities as recorded, ``None`` elsewhere. A new list."""
        values: list[float | None] = [None] * len(self.token_ids)
        for turn in self.turns:
            if turn.logprobs is not None:
                values[turn.start : turn.end] = turn.logprobs
        return values

    @property
    def sampled_count(self) -> int:
        """How many of its ids were sampled in it."""
        return sum(turn.end - turn.start for turn in self.turns)

    @property
    def restored_stops(self) -> list[int]:
        """Positions of stops that the engine didn't return and that were put back; their log-probability is ``None``."""
        return [turn.end - 1 for turn in self.turns if turn.restored_stop]

    def add_sampled(
        self,
        ids: Sequence[int],
        logprobs: Sequence[float | None] | None,
        message: dict[str, Any],
        *,
        restored_stop: bool = False,
    ) -> None:
        """Append a completion and its message."""
        start = len(self.token_ids)
        self.token_ids.extend(ids)
        kept = None if logprobs is None else tuple(logprobs)
        self.turns.append(Turn(start, len(self.token_ids), kept, restored_stop, len(self.messages)))
        self.messages.append(message)

    def copy(self) -> Segment:
        """A segment of its own: one copy of the ids; turns can't change and are shared."""
        messages = [dict(message) for message in self.messages]
        return replace(self, token_ids=list(self.token_ids), turns=list(self.turns), messages=messages)


@dataclass(frozen=True)
class Decline:
    """Why a new segment was started.

    Attributes:
        turn: How many turns were recorded before it.
        reason: Why the bridge was declined, or how the messages differ from the recorded ones.
        on_purpose: Whether ``Rollout.rewrite`` asked for it.
    """

    turn: int
    reason: str
    on_purpose: bool = False
