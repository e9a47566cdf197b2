"""``supervised`` over batches of rows, as ``datasets.map(batched=True)`` and Ray Data's ``map_batches`` call it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from rllm_renderer_core.errors import MessageError, RendererError

from ..sequences.example import SupervisedExamples
from ..sequences.supervised import supervised
from .rows import conversation_of

NOTHING = "nothing in this row is to be trained"


@dataclass(eq=False)
class SupervisedMapper:
    """Rows to training sequences. Picklable: each worker resolves its own renderer, held to the pin.

    A row gives as many rows as it has sequences; one that can't be used gives one row with its ``error`` and no ids.

    Args:
        model: The model's name.
        tokenizer: Folder or hub name of its tokenizer; the model's name where left out.
        options: Of ``resolve``.
        pin: The resolution that each worker must arrive at, from ``Resolution.to_dict``.
        supervised_options: Of ``supervised``: ``train``, ``history``, ``parts``, ``unreachable``.
        strict: Refuse rows with keys that nobody reads and that may say how to train, which ``unread`` lists otherwise.
        load: Loads a tokenizer by name, a function of a module; with transformers where left out.
    """

    COLUMNS: ClassVar = ("row", "input_ids", "weights", "assistant_masks", "trained", "reason", "skipped", "unread", "error")

    model: str
    _: KW_ONLY
    tokenizer: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    pin: Mapping[str, Any] | None = None
    supervised_options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    load: Callable[[str], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "renderer"}

    def __call__(self, batch: Any) -> dict[str, list[Any]]:
        """A batch of columns, or a ``pyarrow.Table``, to columns; a column ``row`` of integers numbers the input,
        else a row's number is its place in the batch."""
        records: list[dict[str, Any]] = []
        for at, row in enumerate(_rows(batch)):
            own = row.get("row")
            records += self.records(row, own if isinstance(own, int) and not isinstance(own, bool) else at)
        return {name: [record[name] for record in records] for name in self.COLUMNS}

    def failed(self, number: int, error: str, skipped: str = "") -> list[dict[str, Any]]:
        """What a row gives that can't be used. Half a surrogate pair is no text to Arrow: it is written as its escape."""
        error, skipped = (text.encode(errors="backslashreplace").decode() for text in (error, skipped))
        empty: dict[str, Any] = {name: [] for name in self.COLUMNS}
        return [{**empty, "row": number, "reason": "", "skipped": skipped, "error": error}]

    @functools.cached_property
    def renderer(self) -> Any:
        """The renderer of this process: resolved once for all mappers that ask alike, and before a fork for all workers."""
        from rllm_renderer_core.normal_form.tokenizer import load_tokenizer
        from rllm_renderer_core.resolving.resolver import resolve

        asked = (self.model, self.tokenizer, self.options, self.pin, self.load)
        if _last.get("asked") != asked:
            loaded = (self.load or load_tokenizer)(self.tokenizer or self.model)
            pinned = {"pin": dict(self.pin)} if self.pin is not None else self.options
            _last.update(asked=asked, renderer=resolve(self.model, loaded, **pinned))
        return _last["renderer"]

    def records(self, row: Mapping[str, Any], number: int, *, columnar: bool = True) -> list[dict[str, Any]]:
        """The output rows of one input row; ``columnar`` as in ``conversation_of``."""
        renderer = self.renderer  # what can't be resolved here isn't the row's fault
        try:
            examples = examples_of(renderer, row, self.supervised_options, columnar=columnar, strict=self.strict)
        except RendererError as error:
            return self.failed(number, str(error))
        skipped = "; ".join(turn.reason for turn in examples.skipped)
        if not examples:
            return self.failed(number, skipped or NOTHING, skipped)
        if any(example.multi_modal_data is not None for example in examples):
            return self.failed(number, "the row has media, which don't go into a table of ids")
        return [
            {
                "row": number,
                "input_ids": example.token_ids,
                "weights": example.weights,
                "assistant_masks": [int(weight > 0) for weight in example.weights],
                "trained": example.trained,
                "reason": example.reason,
                "skipped": skipped,
                "unread": examples.unread,
                "error": "",
            }
            for example in examples
        ]


_last: dict[str, Any] = {}
"""What this process resolved last, and from what: mappers are pickled anew for each shard, without their renderer."""


def examples_of(
    renderer: Any, row: Mapping[str, Any], options: Mapping[str, Any], *, columnar: bool = True, strict: bool = False
) -> SupervisedExamples:
    """The sequences of a row, by these options of ``supervised``; ``columnar`` and ``strict`` as in ``conversation_of``."""
    try:
        said = conversation_of(row, columnar=columnar, options=renderer.resolution.options, strict=strict)
        examples = supervised(renderer, said.messages, tools=said.tools, **options)
        examples.unread = said.unread
        return examples
    except RecursionError:
        raise MessageError("the row is nested too deeply") from None


def _rows(batch: Any) -> Sequence[Mapping[str, Any]]:
    if hasattr(batch, "to_pylist"):
        return batch.to_pylist()  # type: ignore[no-any-return]
    columns = [_plain(batch[name]) for name in batch]
    return [dict(zip(batch, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """Lists and Python's own values for the arrays of numpy and pandas, however deep: Ray's batches have lists as arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value
