"""Rollouts in verl's layout, its ``DataProto``; verl is imported where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rllm_renderer_training.errors import RolloutError
from rllm_renderer_training.export.arrays import Row, padded, trained_sequences

if TYPE_CHECKING:
    from rllm_renderer_training.rollout.rollout import Rollout


@dataclass
class VerlBatch:
    """What ``verl.DataProto.from_dict`` takes.

    Attributes:
        tensors: ``prompts`` [B, P], padded in front; ``responses`` [B, R], padded behind; ``input_ids``, ``attention_mask`` and
            ``position_ids`` [B, P + R]; ``response_mask`` [B, R], 1 on the ids to train; where any was recorded
            ``rollout_log_probs`` [B, R] and ``weight_versions`` [B, R], -1 where an id wasn't sampled.
        non_tensors: Arrays of B objects: ``rollout`` and ``segment``, the numbers of the row's segment, and what was passed.
        omitted: Segments of which nothing is trained.
    """

    tensors: dict[str, Any]
    non_tensors: dict[str, Any]
    omitted: list[Row]

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
        RolloutError: A prompt or response is longer than that, or some turns have log-probabilities and some have none.
    """
    import numpy

    rollouts = list(rollouts)
    sequences, omitted = trained_sequences(rollouts)
    cuts = [sequence.segment.turns[0].start for sequence in sequences]
    width = _width("prompt", cuts, max_prompt_length)
    sizes = [len(sequence.token_ids) for sequence in sequences]
    depth = _width("response", [size - cut for size, cut in zip(sizes, cuts, strict=True)], max_response_length)
    starts = [width - cut for cut in cuts]

    def filled(rows: Sequence[Any], fill: float = 0, kind: str = "int64") -> Any:
        return padded(rows, starts, width + depth, fill, kind, "torch")

    ids = filled([sequence.token_ids for sequence in sequences], pad_id)
    tensors = {
        "input_ids": ids,
        "prompts": ids[:, :width].clone(),
        "responses": ids[:, width:].clone(),
        "attention_mask": filled([[1] * size for size in sizes]),
        "position_ids": filled([range(size) for size in sizes]),
        "response_mask": filled([sequence.loss_mask for sequence in sequences])[:, width:].clone(),
    }
    logprobs = filled([sequence.logprobs for sequence in sequences], 0.0, "float32")
    versions = filled([sequence.versions for sequence in sequences], -1)
    for name, values in (("rollout_log_probs", logprobs), ("weight_versions", versions)):
        if values is not None:
            tensors[name] = values[:, width:].clone()
    named: dict[str, Sequence[Any]] = {
        "rollout": range(len(rollouts)),
        "segment": [sequence.row.segment for sequence in sequences],
        **(non_tensors or {}),
    }
    arrays = {}
    for name, values in named.items():
        taken = values if name == "segment" else [values[sequence.row.rollout] for sequence in sequences]
        arrays[name] = numpy.empty(len(sequences), dtype=object)
        arrays[name][:] = list(taken)
    return VerlBatch(tensors, arrays, omitted)


def _width(what: str, lengths: Sequence[int], given: int | None) -> int:
    longest = max(lengths, default=0)
    if given is not None and longest > given:
        raise RolloutError(
            f"a {what} has {longest} ids, more than max_{what}_length={given}", fix="leave that rollout out, or raise it"
        )
    return longest if given is None else given
