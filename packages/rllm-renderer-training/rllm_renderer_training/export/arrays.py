"""Rollouts as trainers take them: padded arrays of NumPy or torch, and rows of a data set.

Each segment is one sequence. One in which nothing was sampled has nothing to train and is left out: ``left_out`` says which.
What isn't known isn't made up: an id without a log-probability has 0.0, and ``logprob_known`` is 0 there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RolloutError
from ..rollout.segment import Segment

if TYPE_CHECKING:
    from ..rollout.rollout import Rollout

IGNORED = -100
"""The label of ids that aren't trained, as torch's cross entropy and transformers' trainers read it."""


class Row(NamedTuple):
    """A segment with its place: the number of its rollout and its own number in that."""

    rollout: int
    segment: int


@dataclass
class Batch:
    """Padded arrays of B sequences of at most L ids.

    Attributes:
        input_ids: [B, L], int64.
        attention_mask: [B, L], int64; 1 where an id is, 0 on padding.
        position_ids: [B, L], int64; 0 on padding.
        loss_mask: [B, L], int64; 1 on the ids that were sampled. They are where they stand: a model's output for the id at
            ``i`` is its logit at ``i - 1``.
        logprobs: [B, L], float32; of the sampled ids, as the engine gave them; 0.0 elsewhere.
        logprob_known: [B, L], int64; 1 where ``logprobs`` has the engine's value.
        spans: For each sequence the (start, end) of its sampled turns, in positions of the padded row.
        rows: Which segment each sequence is.
        left_out: Segments in which nothing was sampled, so that there is nothing to train.
    """

    input_ids: Any
    attention_mask: Any
    position_ids: Any
    loss_mask: Any
    logprobs: Any
    logprob_known: Any
    spans: list[list[tuple[int, int]]]
    rows: list[Row]
    left_out: list[Row] = field(default_factory=list)


def trained(rollouts: Iterable[Rollout]) -> tuple[list[tuple[Row, Segment]], list[Row]]:
    """The segments in which something was sampled, and the places of the others."""
    kept: list[tuple[Row, Segment]] = []
    left_out: list[Row] = []
    for number, rollout in enumerate(rollouts):
        for at, segment in enumerate(rollout.segments):
            if segment.sampled_count:
                kept.append((Row(number, at), segment))
            else:
                left_out.append(Row(number, at))
    return kept, left_out


def to_arrays(
    rollouts: Iterable[Rollout], *, pad_id: int, max_len: int | None = None, left_pad: bool = False, library: str = "numpy"
) -> Batch:
    """Padded arrays of all segments that have sampled ids.

    Args:
        rollouts: Finished rollouts.
        pad_id: The id that padding has.
        max_len: The length of each row; by default that of the longest segment.
        left_pad: Pad in front.
        library: ``"numpy"`` or ``"torch"``.

    Raises:
        RolloutError: A segment is longer than ``max_len``: cutting it off would train something else.
    """
    import numpy

    kept, left_out = trained(rollouts)
    length = max((len(segment.token_ids) for _, segment in kept), default=0) if max_len is None else max_len
    shape = (len(kept), length)
    out = Batch(
        numpy.full(shape, pad_id, dtype=numpy.int64),
        numpy.zeros(shape, dtype=numpy.int64),
        numpy.zeros(shape, dtype=numpy.int64),
        numpy.zeros(shape, dtype=numpy.int64),
        numpy.zeros(shape, dtype=numpy.float32),
        numpy.zeros(shape, dtype=numpy.int64),
        [],
        [row for row, _ in kept],
        left_out,
    )
    for number, (row, segment) in enumerate(kept):
        size = len(segment.token_ids)
        if size > length:
            raise RolloutError(
                f"segment {row.segment} of rollout {row.rollout} has {size} ids, which is more than max_len={length}",
                fix="leave it out, or end rollouts in time: rollout.remaining(max_len)",
            )
        start = length - size if left_pad else 0
        out.input_ids[number, start : start + size] = segment.token_ids
        out.attention_mask[number, start : start + size] = 1
        out.position_ids[number, start : start + size] = numpy.arange(size)
        out.spans.append([(turn.start + start, turn.end + start) for turn in segment.turns])
        for at, logprob in _sampled(segment):
            out.loss_mask[number, start + at] = 1
            if logprob is not None:
                out.logprobs[number, start + at] = logprob
                out.logprob_known[number, start + at] = 1
    return _as_torch(out) if library == "torch" else _as_numpy(out, library)


def _sampled(segment: Segment) -> Iterator[tuple[int, float | None]]:
    for turn in segment.turns:
        logprobs = turn.logprobs or (None,) * (turn.end - turn.start)
        yield from zip(range(turn.start, turn.end), logprobs, strict=True)


def _as_numpy(batch: Batch, library: str) -> Batch:
    if library != "numpy":
        raise RolloutError(f"library {library!r} isn't known", fix="pass 'numpy' or 'torch'")
    return batch


def _as_torch(batch: Batch) -> Batch:
    import torch

    for name in ("input_ids", "attention_mask", "position_ids", "loss_mask", "logprobs", "logprob_known"):
        setattr(batch, name, torch.from_numpy(getattr(batch, name)))
    return batch


def to_rows(rollouts: Iterable[Rollout]) -> list[dict[str, Any]]:
    """One row for each segment that has sampled ids: for ``datasets.Dataset.from_list`` and trainers that read its columns.

    Returns:
        ``input_ids``; ``labels``, -100 where an id isn't trained; ``completion_mask``, 1 where it was sampled;
        ``logprobs``, ``None`` where it isn't known; ``turns``, the ``start`` and ``end`` of each sampled turn, and whether its
        stop was put back; ``rollout`` and ``segment``, their numbers.
    """
    kept, _ = trained(rollouts)
    return [
        {
            "input_ids": list(segment.token_ids),
            "labels": [
                token if sampled else IGNORED for token, sampled in zip(segment.token_ids, segment.sampled_mask, strict=True)
            ],
            "completion_mask": [int(sampled) for sampled in segment.sampled_mask],
            "logprobs": segment.logprobs,
            "turns": [{"start": turn.start, "end": turn.end, "restored_stop": turn.restored_stop} for turn in segment.turns],
            "rollout": row.rollout,
            "segment": row.segment,
        }
        for row, segment in kept
    ]
