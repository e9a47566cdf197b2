"""What ``supervised`` returns: training sequences, and the turns that were left out."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

IGNORED = -100
"""The label that transformers' and TRL's losses leave out."""


@dataclass
class SupervisedExample:
    """One sequence to train on: contexts as serving renders them, and behind them what the model samples.

    Attributes:
        token_ids: The ids, from the first to the last trained one.
        weights: Same length; the loss weight of predicting that id, 0 where it isn't trained.
        message_indices: Same length; the index of the message that an id belongs to, -1 for scaffolding, ``None`` where the
            backend can't tell.
        trained: Indices of the messages that are trained in this sequence, in order.
        reason: Why this sequence was begun.
        multi_modal_data: What the trainer needs besides ids where messages carry media, the backend's own object, for the
            prompt of the last trained turn.
    """

    token_ids: list[int]
    weights: list[float]
    message_indices: list[int | None]
    trained: list[int]
    reason: str
    multi_modal_data: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which goes through JSON and Parquet.

        Raises:
            TypeError: Media: the backend's object isn't plain data.
        """
        if self.multi_modal_data is not None:
            raise TypeError(f"multi_modal_data is a {type(self.multi_modal_data).__name__}, which isn't plain data")
        return {key: deepcopy(value) for key, value in vars(self).items() if key != "multi_modal_data"}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SupervisedExample:
        """The example that ``to_dict`` wrote."""
        return cls(**data)

    def columns(self) -> dict[str, list[int]]:
        """The columns that transformers' and TRL's trainers take; weights other than 0 and 1 don't fit there.

        Returns:
            ``input_ids``; ``labels``, the ids or -100 where nothing is trained (not shifted: the model shifts);
            ``attention_mask``, all 1; ``assistant_masks``, 1 where trained.

        Raises:
            ValueError: A weight that is neither 0 nor 1.
        """
        if not set(self.weights) <= {0.0, 1.0}:
            raise ValueError("labels can't carry weights other than 0 and 1: use token_ids and weights")
        mask = [int(weight) for weight in self.weights]
        return {
            "input_ids": list(self.token_ids),
            "labels": [token if kept else IGNORED for token, kept in zip(self.token_ids, mask, strict=True)],
            "attention_mask": [1] * len(mask),
            "assistant_masks": mask,
        }


@dataclass(frozen=True)
class SkippedTurn:
    """A turn that ``unreachable="skip"`` left out: the index of its message, and why it can't be reached."""

    index: int
    reason: str


class SupervisedExamples(list[SupervisedExample]):
    """The sequences of one conversation.

    Attributes:
        skipped: The turns that were left out.
        unread: Of a data set's row: its keys that nobody reads and that may say how to train.
    """

    def __init__(self, examples: Iterable[SupervisedExample] = (), skipped: Iterable[SkippedTurn] = ()) -> None:
        super().__init__(examples)
        self.skipped = list(skipped)
        self.unread: list[str] = []
