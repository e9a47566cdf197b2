"""What a rollout is made of: unbroken sequences of ids, each with the turns that were sampled in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .replies import Reply


@dataclass(frozen=True)
class Turn:
    """One sampled completion within a segment. Its tuples have one entry for each of its ids.

    Attributes:
        start: Where it starts in the segment's ids; behind a begun answer that was given (``continue_final_message``).
        end: Where it ends, exclusive.
        logprobs: ``None`` where one isn't known; ``None`` where none was recorded.
        restored_stop: The last id is the stop that the engine named and didn't return: see ``Rollout.record``.
        message: Index of its message in the segment's ``messages``.
        versions: Version of the weights that sampled an id; ``None`` where none was recorded.
        forced: ``True`` for an id that the engine forced, such as a thinking budget's close; ``None`` where none was.
    """

    start: int
    end: int
    logprobs: tuple[float | None, ...] | None = None
    restored_stop: bool = False
    message: int = -1
    versions: tuple[int | None, ...] | None = None
    forced: tuple[bool, ...] | None = None

    def joined(self, more: Turn) -> Turn:
        """This turn and what was sampled directly behind it, as one."""
        unknown = {"logprobs": None, "versions": None, "forced": False}
        values = {name: self._with(name, more, value) for name, value in unknown.items()}
        return replace(more, start=self.start, **values)

    def _with(self, name: str, more: Turn, unknown: Any) -> Any:
        mine, theirs = getattr(self, name), getattr(more, name)
        if mine is None and theirs is None:
            return None
        return (*(mine or (unknown,) * (self.end - self.start)), *(theirs or (unknown,) * (more.end - more.start)))


@dataclass
class Segment:
    """One unbroken sequence of ids for a trainer: each completion stands behind the very prompt that it was sampled from.

    Attributes:
        token_ids: Prompt and completions, in order.
        turns: The completions that were sampled in this segment, in order. Earlier completions that are part of its first
            prompt, rendered again, are none of them: they are trained in the segment where they were sampled.
        messages: The conversation that the ids are of, in normal form, with the assistant messages as parsed.
        tools: Declared in it, in normal form.
        prompt_size: How many of its ids the current request samples from, or sampled from.
        turn_start: Where the current assistant turn begins: at ``prompt_size``, or before it where that goes on with a turn.
        recorded: Whether something was sampled from the current prompt.
        replies: The sampled turns as they were shown, by the index of their message.
    """

    token_ids: list[int]
    turns: list[Turn] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    prompt_size: int = 0
    turn_start: int = 0
    recorded: bool = False
    replies: dict[int, Reply] = field(default_factory=dict)

    @property
    def sampled_mask(self) -> list[bool]:
        """As long as ``token_ids``; ``True`` for each id that was sampled in this segment, and for no other. A new list."""
        return self._per_id(False, lambda turn: [not skip for skip in turn.forced or (False,) * (turn.end - turn.start)])

    @property
    def logprobs(self) -> list[float | None]:
        """As long as ``token_ids``; the sampled ids' log-probabilities as recorded, ``None`` elsewhere. A new list."""
        return self._per_id(None, lambda turn: turn.logprobs)

    @property
    def versions(self) -> list[int | None]:
        """As long as ``token_ids``; the version of the weights that sampled an id, ``None`` elsewhere. A new list."""
        return self._per_id(None, lambda turn: turn.versions)

    def _per_id(self, elsewhere: Any, values_of: Any) -> list[Any]:
        values = [elsewhere] * len(self.token_ids)
        for turn in self.turns:
            if (own := values_of(turn)) is not None:
                values[turn.start : turn.end] = own
        return values

    @property
    def sampled_count(self) -> int:
        """How many of its ids were sampled in it."""
        return sum(turn.end - turn.start - sum(turn.forced or ()) for turn in self.turns)

    @property
    def restored_stops(self) -> list[int]:
        """Positions of stops that the engine didn't return and that were put back; their log-probability is ``None``."""
        return [turn.end - 1 for turn in self.turns if turn.restored_stop]

    def add_sampled(self, ids: list[int], sampled: Turn, message: dict[str, Any]) -> None:
        """Append a completion, which is the turn ``sampled`` by itself; ``message`` is that of the whole turn."""
        start = len(self.token_ids)
        self.token_ids.extend(ids)
        if not self.recorded and self.messages[-1]["role"] == "assistant":  # it goes on with a message that is already there
            self.messages.pop()
        at = len(self.messages)
        self.messages.append(message)
        turn = replace(sampled, start=start, end=len(self.token_ids), message=at)
        if self.turns and self.turns[-1].message == at:
            turn = self.turns.pop().joined(turn)
        self.turns.append(turn)
        self.recorded = True

    def add_prompt(self, ids: list[int], messages: list[dict[str, Any]]) -> None:
        """Append what the next turn is sampled behind."""
        self.token_ids.extend(ids)
        self.messages.extend(messages)
        self.turn_start = self.prompt_size = len(self.token_ids)
        self.recorded = False

    def copy(self, *, sampled: bool = True) -> Segment:
        """A segment of its own: one copy of the ids; turns can't change and are shared, or left out."""
        return replace(
            self,
            token_ids=list(self.token_ids),
            turns=list(self.turns) if sampled else [],
            messages=[dict(message) for message in self.messages],
            replies=dict(self.replies),
        )


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
