"""Rollouts in the layouts of RL frameworks: verl's ``DataProto``, rLLM's ``Trajectory`` and ``Step``.

Neither framework is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import RolloutError
from ..rollout.segment import Turn
from .arrays import Row, trained

if TYPE_CHECKING:
    from ..rollout.rollout import Rollout


@dataclass
class VerlBatch:
    """What ``verl.DataProto.from_dict`` takes.

    Attributes:
        tensors: ``prompts`` [B, P], padded in front; ``responses`` [B, R], padded behind; ``input_ids``, ``attention_mask`` and
            ``position_ids`` [B, P + R]; ``response_mask`` [B, R], 1 where an id was sampled; ``rollout_log_probs`` [B, R].
        non_tensors: Arrays of B objects: ``rollout`` and ``segment``, the numbers of the row's segment, and what was passed.
        left_out: Segments in which nothing was sampled.
    """

    tensors: dict[str, Any]
    non_tensors: dict[str, Any]
    left_out: list[Row]

    def to_dataproto(self) -> Any:
        """A ``verl.DataProto``; needs verl."""
        from verl import DataProto

        return DataProto.from_dict(tensors=self.tensors, non_tensors=self.non_tensors)


def to_verl(
    rollouts: Iterable[Rollout],
    *,
    pad_id: int,
    max_prompt_length: int | None = None,
    max_response_length: int | None = None,
    non_tensors: Mapping[str, Sequence[Any]] | None = None,
) -> VerlBatch:
    """A batch in verl's layout: the prompt is what the segment's first turn was sampled from, the response all behind it.

    Args:
        rollouts: Finished rollouts.
        pad_id: The id that padding has.
        max_prompt_length: P; by default the longest.
        max_response_length: R; by default the longest.
        non_tensors: One value for each rollout by name, such as ``{"uid": [...]}``; each row gets its rollout's.

    Raises:
        RolloutError: A prompt or response is longer than that, or a sampled id has no log-probability while others have one.
    """
    import numpy
    import torch

    rollouts = list(rollouts)
    kept, left_out = trained(rollouts)
    cuts = [segment.turns[0].start for _, segment in kept]
    width = _width("prompt", cuts, max_prompt_length)
    lengths = [len(segment.token_ids) - cut for (_, segment), cut in zip(kept, cuts, strict=True)]
    depth = _width("response", lengths, max_response_length)
    ids = torch.full((len(kept), width + depth), pad_id, dtype=torch.long)
    attention, mask = torch.zeros_like(ids), torch.zeros((len(kept), depth), dtype=torch.long)
    logprobs = torch.zeros((len(kept), depth), dtype=torch.float32)
    for number, ((_, segment), cut) in enumerate(zip(kept, cuts, strict=True)):
        start = width - cut
        end = start + len(segment.token_ids)
        ids[number, start:end] = torch.tensor(segment.token_ids)
        attention[number, start:end] = 1
        for turn in segment.turns:
            mask[number, turn.start - cut : turn.end - cut] = 1
            if turn.logprobs is not None:
                logprobs[number, turn.start - cut : turn.end - cut] = torch.tensor(_known(turn))
    tensors = {
        "input_ids": ids,
        "prompts": ids[:, :width].clone(),
        "responses": ids[:, width:].clone(),
        "attention_mask": attention,
        "position_ids": (attention.cumsum(dim=1) - 1) * attention,
        "response_mask": mask,
    }
    having = {turn.logprobs is not None for _, segment in kept for turn in segment.turns}
    if having == {True, False}:
        raise RolloutError(
            "some turns have log-probabilities and some have none, which verl can't tell apart",
            fix="record them for every turn, or for none",
        )
    if having == {True}:
        tensors["rollout_log_probs"] = logprobs
    named: dict[str, Sequence[Any]] = {
        "rollout": range(len(rollouts)),
        "segment": [row.segment for row, _ in kept],
        **(non_tensors or {}),
    }
    arrays = {}
    for name, values in named.items():
        taken = values if name == "segment" else [values[row.rollout] for row, _ in kept]
        arrays[name] = numpy.empty(len(kept), dtype=object)
        arrays[name][:] = list(taken)
    return VerlBatch(tensors, arrays, left_out)


def _known(turn: Turn) -> list[float]:
    """A turn's log-probabilities; a stop that the engine stopped at and didn't return has 0.0: nothing else could follow."""
    values = list(turn.logprobs or ())
    if turn.restored_stop and values and values[-1] is None:
        values[-1] = 0.0
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        raise RolloutError(
            f"{len(values) - len(known)} sampled ids of a turn have no log-probability, and others have",
            fix="record one for each id, or none",
        )
    return known


def _width(what: str, lengths: Sequence[int], given: int | None) -> int:
    longest = max(lengths, default=0)
    if given is not None and longest > given:
        raise RolloutError(
            f"a {what} has {longest} ids, more than max_{what}_length={given}", fix="leave that rollout out, or raise it"
        )
    return longest if given is None else given


def rllm_steps(rollout: Rollout) -> list[dict[str, Any]]:
    """The arguments of rLLM's ``Step`` for each sampled turn, in order; ``logprobs`` is empty where one isn't known."""
    turns = [(segment, turn) for segment in rollout.segments for turn in segment.turns]
    return [
        {
            "prompt_ids": segment.token_ids[: turn.start],
            "response_ids": segment.token_ids[turn.start : turn.end],
            "logprobs": _logprobs(turn),
            "chat_completions": [dict(message) for message in segment.messages[: turn.message + 1]],
            "model_response": str(segment.messages[turn.message]["content"]),
            "thought": str(segment.messages[turn.message].get("reasoning_content") or ""),
            "done": number == len(turns) - 1,
        }
        for number, (segment, turn) in enumerate(turns)
    ]


def _logprobs(turn: Turn) -> list[float]:
    try:
        return _known(turn)
    except RolloutError:
        return []


def to_rllm(rollout: Rollout, *, name: str = "agent", task: Any = None, reward: float | None = None) -> Any:
    """A ``rllm.types.Trajectory`` with one ``Step`` for each sampled turn; needs rLLM."""
    from rllm.types import Step, Trajectory

    steps = [Step(**step) for step in rllm_steps(rollout)]
    return Trajectory(name=name, task=task, steps=steps, reward=reward)
