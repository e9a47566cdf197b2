"""A multi-turn rollout as token state: bridged where possible, rendered again where not, never silently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contract.messages import normalize_messages
from ..errors import BridgeDeclined, RolloutError
from ..types import Message, ParsedResponse


@dataclass
class Segment:
    """One unbroken sequence of ids for a trainer.

    Attributes:
        token_ids: Prompt and completions, in order.
        sampled_mask: Same length; ``True`` for each id that was sampled in this segment, and for no other.
        logprobs: Same length; the sampled ids' log-probabilities as recorded, ``None`` elsewhere.
    """

    token_ids: list[int]
    sampled_mask: list[bool] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)

    def _extend(self, ids: list[int], *, sampled: bool, logprobs: Sequence[float | None] | None = None) -> None:
        self.token_ids.extend(ids)
        self.sampled_mask.extend([sampled] * len(ids))
        self.logprobs.extend(logprobs if logprobs is not None else [None] * len(ids))


@dataclass(frozen=True)
class Decline:
    """A turn that started a new segment: the number of turns recorded before it, and why the bridge was declined."""

    turn: int
    reason: str


def as_logprobs(logprobs: Any, count: int) -> list[float | None]:
    """Log-probabilities as ``float``, from a list or an array of NumPy or torch; ``None`` where one isn't known.

    Raises:
        RolloutError: One isn't a finite number, or there are more or fewer than ``count``.
    """
    to_list = getattr(logprobs, "tolist", None)
    values = list(to_list() if callable(to_list) else logprobs)
    if len(values) != count:
        raise RolloutError(
            f"{len(values)} logprobs for {count} sampled ids", fix="pass one for each id, None where it isn't known"
        )
    out: list[float | None] = []
    for index, value in enumerate(values):
        item = getattr(value, "tolist", None)  # a scalar of NumPy or torch
        plain = item() if callable(item) else value
        number = isinstance(plain, (int, float)) and not isinstance(plain, bool)
        if plain is not None and not (number and math.isfinite(plain)):
            raise RolloutError(f"logprob {index} is {plain!r}, not a finite number", fix="pass None where it isn't known")
        out.append(None if plain is None else float(plain))
    return out


class Rollout:
    """Cumulative token state of one conversation. Plain state, picklable, no I/O.

    ``begin`` once, then ``record`` and ``extend`` in turn. Each sampled id is in exactly one segment with its mask set: where a
    bridge is declined, the conversation is rendered again into a new segment, in which earlier completions aren't marked.

    Args:
        renderer: What ``resolve`` returned.

    Attributes:
        messages: The conversation so far, with the assistant messages as parsed.
        segments: What a trainer needs.
        declines: Where and why a new segment was started.
    """

    def __init__(self, renderer: Any) -> None:
        self.renderer = renderer
        self.tools: list[Any] | None = None
        self.messages: list[dict[str, Any]] = []
        self.segments: list[Segment] = []
        self.declines: list[Decline] = []
        self.turns = 0
        self._prompt: list[int] = []
        self._completion: list[int] | None = None

    @property
    def prompt_ids(self) -> list[int]:
        """The prompt that the current turn is, or was, sampled from."""
        return list(self._prompt)

    def begin(self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None) -> list[int]:
        """Render the opening messages.

        Args:
            messages: At least one message; the conversation before the first completion.
            tools: Declared for the whole rollout.

        Returns:
            The prompt ids to sample the first turn from.
        """
        if self.segments:
            raise RolloutError("begin was called twice", fix="make a Rollout for each conversation")
        opening = normalize_messages(messages)
        if not opening:
            raise RolloutError("begin needs at least one message")
        tools = list(tools) if tools is not None else None
        prompt = self.renderer.render_ids(opening, tools=tools, add_generation_prompt=True)
        self.tools, self.messages = tools, opening
        self._start_segment(prompt)
        return list(prompt)

    def record(self, completion_ids: Sequence[int], logprobs: Sequence[float] | None = None) -> ParsedResponse:
        """Take what was sampled from the current prompt, with its stop.

        Args:
            completion_ids: The sampled ids, untouched.
            logprobs: One for each id, where they are known.

        Returns:
            The completion, parsed; its message is part of ``messages`` now.
        """
        if not self.segments or self._completion is not None:
            raise RolloutError("record needs a prompt that nothing was sampled from yet", fix="call begin or extend first")
        completion = list(self.renderer.as_ids(completion_ids, "completion_ids"))
        given = None if logprobs is None else as_logprobs(logprobs, len(completion))
        parsed: ParsedResponse = self.renderer.parse_response(completion, tools=self.tools, prompt_ids=self._prompt)
        self._completion = completion
        self.segments[-1]._extend(completion, sampled=True, logprobs=given)
        self.messages.append(parsed.to_message())
        self.turns += 1
        return parsed

    def extend(self, new_messages: Sequence[Message]) -> list[int]:
        """Add what happened since: tool results, a user's answer.

        Returns:
            The prompt ids to sample the next turn from: the previous prompt and completion, id for id, and the new messages; or
            the whole conversation rendered again, with the reason in ``declines``.
        """
        if self._completion is None:
            raise RolloutError("extend needs a recorded completion", fix="call record first")
        new = normalize_messages(new_messages)
        out = self.renderer.try_bridge(
            self._prompt, self._completion, new, tools=self.tools, previous_message=self.messages[-1]
        )
        if isinstance(out, BridgeDeclined):
            prompt = self.renderer.render_ids([*self.messages, *new], tools=self.tools, add_generation_prompt=True)
            self.declines.append(Decline(self.turns, out.reason))
            self._start_segment(prompt)
        else:
            prompt = out.token_ids
            self.segments[-1]._extend(prompt[len(self._prompt) + len(self._completion) :], sampled=False)
        self.messages.extend(new)
        self._prompt, self._completion = list(prompt), None
        return list(prompt)

    def _start_segment(self, prompt: list[int]) -> None:
        self.segments.append(Segment([]))
        self.segments[-1]._extend(prompt, sampled=False)
        self._prompt = list(prompt)
