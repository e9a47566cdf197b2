"""Rollouts as trainers take them: padded arrays of NumPy or torch, and rows of a data set.

Each segment is one sequence, cut behind its last sampled id. Only what was sampled is in a loss mask, and where
log-probabilities were recorded, only ids whose log-probability is known: a made-up 0.0 would be a probability of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RolloutError
from ..rollout.segment import Segment
from ..sequences.example import IGNORED

if TYPE_CHECKING:
    from ..rollout.rollout import Rollout


class Row(NamedTuple):
    """A segment with its place: the number of its rollout and its own number in that."""

    rollout: int
    segment: int


class TrainedSequence(NamedTuple):
    """A segment as it is trained; the lists have one entry for each id, up to the last sampled one."""

    row: Row
    segment: Segment
    token_ids: list[int]
    loss_mask: list[int]  # 1 on the ids to train
    logprobs: list[float | None] | None  # of those, as the engine gave them; None where no rollout has any
    versions: list[int | None] | None  # of the weights that sampled an id; None where no rollout has any


def trained_sequences(rollouts: Iterable[Rollout]) -> tuple[list[TrainedSequence], list[Row]]:
    """The segments of which something is trained, and the places of the others."""
    segments = [
        (Row(number, at), segment) for number, rollout in enumerate(rollouts) for at, segment in enumerate(rollout.segments)
    ]
    turns = [turn for _, segment in segments for turn in segment.turns if turn.end > turn.start]
    known = {any(value is not None for value in turn.logprobs or ()) for turn in turns if not all(turn.forced or (False,))}
    if len(known) > 1:
        raise RolloutError(
            "some turns have log-probabilities and some have none", fix="record them for every turn, or for none"
        )
    versioned = any(turn.versions for turn in turns)
    sequences: list[TrainedSequence] = []
    omitted: list[Row] = []
    for row, segment in segments:
        mask, logprobs = segment.sampled_mask, segment.logprobs
        end = len(mask) - next((at for at, sampled in enumerate(reversed(mask)) if sampled), len(mask))
        if True in known:
            mask = [value is not None for value in logprobs]
        if not any(mask[:end]):
            omitted.append(row)
            continue
        known_logprobs = logprobs[:end] if True in known else None
        versions = segment.versions[:end] if versioned else None
        loss_mask = [int(kept) for kept in mask[:end]]
        sequences.append(TrainedSequence(row, segment, segment.token_ids[:end], loss_mask, known_logprobs, versions))
    return sequences, omitted


@dataclass
class Batch:
    """Padded arrays of B sequences of at most L ids.

    Attributes:
        input_ids: [B, L], int64.
        attention_mask: [B, L], int64; 1 where an id is, 0 on padding.
        position_ids: [B, L], int64; 0 on padding.
        loss_mask: [B, L], int64; 1 on the ids to train: sampled, and with a log-probability where any was recorded. They are
            where they stand: a model's output for the id at ``i`` is its logit at ``i - 1``.
        logprobs: [B, L], float32; of the ids in ``loss_mask`` the engine's, 0.0 elsewhere; ``None`` where none was recorded.
        versions: [B, L], int64; the version of the weights that sampled an id, -1 elsewhere; ``None`` where none was recorded.
        spans: For each sequence the (start, end) of its sampled turns, in positions of the padded row.
        rows: Which segment each sequence is.
        omitted: Segments of which nothing is trained.
    """

    input_ids: Any
    attention_mask: Any
    position_ids: Any
    loss_mask: Any
    logprobs: Any
    versions: Any
    spans: list[list[tuple[int, int]]]
    rows: list[Row]
    omitted: list[Row] = field(default_factory=list)


def to_arrays(
    rollouts: Iterable[Rollout], *, pad_id: int, max_len: int | None = None, left_pad: bool = False, library: str = "numpy"
) -> Batch:
    """Padded arrays of all segments of which something is trained.

    Args:
        rollouts: Finished rollouts.
        pad_id: The id that padding has.
        max_len: The length of each row; by default that of the longest sequence.
        left_pad: Pad in front.
        library: ``"numpy"`` or ``"torch"``.

    Raises:
        RolloutError: A sequence is longer than ``max_len``: cutting off sampled ids would train something else. Or some turns
            have log-probabilities and some have none.
    """
    if library not in ("numpy", "torch"):
        raise RolloutError(f"library {library!r} isn't known", fix="pass 'numpy' or 'torch'")
    sequences, omitted = trained_sequences(rollouts)
    length = max((len(sequence.token_ids) for sequence in sequences), default=0) if max_len is None else max_len
    for sequence in sequences:
        if len(sequence.token_ids) > length:
            raise RolloutError(
                f"segment {sequence.row.segment} of rollout {sequence.row.rollout} has {len(sequence.token_ids)} ids up to its "
                f"last sampled one, which is more than max_len={length}",
                fix="leave it out, or end rollouts in time: rollout.remaining(max_len, new_messages) before extend",
            )
    starts = [length - len(sequence.token_ids) if left_pad else 0 for sequence in sequences]

    def filled(name: str, fill: float = 0, kind: str = "int64") -> Any:
        return padded([getattr(sequence, name) for sequence in sequences], starts, length, fill, kind, library)

    sizes = [range(len(sequence.token_ids)) for sequence in sequences]
    return Batch(
        filled("token_ids", pad_id),
        padded([[1] * len(size) for size in sizes], starts, length, 0, "int64", library),
        padded(sizes, starts, length, 0, "int64", library),
        filled("loss_mask"),
        filled("logprobs", 0.0, "float32"),
        filled("versions", -1),
        [
            [(turn.start + start, min(turn.end, len(sequence.token_ids)) + start) for turn in sequence.segment.turns]
            for sequence, start in zip(sequences, starts, strict=True)
        ],
        [sequence.row for sequence in sequences],
        omitted,
    )


def padded(
    rows: Sequence[Sequence[Any] | None], starts: Sequence[int], width: int, fill: float, kind: str, library: str
) -> Any:
    """An array [len(rows), width] with each row's values from its start on, and ``fill`` elsewhere and for ``None``; ``None``
    where the rows are."""
    import numpy

    array = numpy.full((len(rows), width), fill, dtype=kind)
    for number, (values, start) in enumerate(zip(rows, starts, strict=True)):
        if values is None:
            return None
        array[number, start : start + len(values)] = [fill if value is None else value for value in values]
    if library == "numpy":
        return array
    import torch

    return torch.from_numpy(array)


def to_rows(rollouts: Iterable[Rollout]) -> list[dict[str, Any]]:
    """One row for each segment of which something is trained: for ``datasets.Dataset.from_list`` and trainers that read it.

    Returns:
        ``input_ids``; ``labels``, -100 where an id isn't trained; ``completion_mask``, 1 where it is; ``logprobs`` and
        ``versions``, ``None`` where an id isn't trained, and for all ids where none was recorded; ``turns``, the ``start`` and
        ``end`` of each sampled turn, and whether its stop was put back; ``rollout`` and ``segment``, their numbers.

    Raises:
        RolloutError: Some turns have log-probabilities and some have none.
    """
    sequences, _ = trained_sequences(rollouts)
    return [
        {
            "input_ids": sequence.token_ids,
            "labels": [token if kept else IGNORED for token, kept in zip(sequence.token_ids, sequence.loss_mask, strict=True)],
            "completion_mask": sequence.loss_mask,
            "logprobs": sequence.logprobs,
            "versions": sequence.versions,
            "turns": [
                {key: getattr(turn, key) for key in ("start", "end", "restored_stop")} for turn in sequence.segment.turns
            ],
            "rollout": sequence.row.rollout,
            "segment": sequence.row.segment,
        }
        for sequence in sequences
    ]
