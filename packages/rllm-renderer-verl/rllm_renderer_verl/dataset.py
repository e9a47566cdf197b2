"""verl's SFT trainer on ids that ``supervised`` made: the data set class to name in ``data.custom_cls``.

verl's own class reads ``messages`` and renders each message by itself, so that no column of ids could be handed to it. This one
reads the Parquet files of ``rllm-renderer sft`` and returns what verl's returns, in both padding modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = ("input_ids", "weights")


class SupervisedDataset:
    """A map-style data set of finished sequences, with the constructor that verl calls.

    Args:
        parquet_files: Files with the columns ``input_ids`` and ``weights``.
        tokenizer: Its ``pad_token_id`` pads, 0 where it has none.
        config: verl's ``data``: ``pad_mode`` (``"right"`` or ``"no_padding"``), ``max_length``, ``truncation`` (``"error"``,
            ``"left"`` or ``"right"``), as verl's own data set reads them.
        processor: Not used: sequences with media aren't in such files.
        max_samples: Only the first so many; -1 for all.
    """

    def __init__(
        self,
        parquet_files: Any,
        tokenizer: Any,
        config: Mapping[str, Any] | None = None,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        import pyarrow
        import pyarrow.parquet

        settings = config or {}
        self.pad_mode = settings.get("pad_mode", "right")
        self.truncation = settings.get("truncation", "error")
        self.max_length = int(settings.get("max_length", 1024))
        if self.pad_mode not in ("right", "no_padding") or self.truncation not in ("error", "left", "right"):
            raise ValueError(f"pad_mode {self.pad_mode!r} with truncation {self.truncation!r} isn't one of verl's")
        self._pad_id = getattr(tokenizer, "pad_token_id", None) or 0
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        tables = [pyarrow.parquet.read_table(file, columns=list(COLUMNS)) for file in files]
        table = pyarrow.concat_tables(tables)
        self._rows = table if max_samples < 0 else table.slice(0, max_samples)

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __getitem__(self, item: int) -> dict[str, Any]:
        """``input_ids``, ``position_ids`` and ``loss_mask``; padded also ``attention_mask`` and ``response_mask``, all tensors.

        Raises:
            ValueError: A sequence is longer than ``max_length`` and ``truncation`` is ``"error"``.
        """
        import torch

        ids, weights = (self._rows[name][item].as_py() for name in COLUMNS)
        whole = len(ids)
        if whole > self.max_length:
            if self.truncation == "error":
                raise ValueError(f"sequence {item} has {whole} ids, more than max_length={self.max_length}")
            # verl cuts what it doesn't pad at the end, whatever the side.
            left = self.truncation == "left" and self.pad_mode == "right"
            kept = slice(-self.max_length, None) if left else slice(self.max_length)
            ids, weights = ids[kept], weights[kept]
        plain = set(weights) <= {0.0, 1.0}
        mask = torch.tensor(weights, dtype=torch.long if plain else torch.float32)
        tensors = {
            "input_ids": torch.tensor(ids, dtype=torch.long),
            "position_ids": torch.arange(len(ids), dtype=torch.long),
            "loss_mask": mask,
        }
        if self.pad_mode == "no_padding":
            return tensors
        tensors["attention_mask"] = torch.ones(len(ids), dtype=torch.long)
        short = self.max_length - len(ids)
        padded = {
            name: torch.nn.functional.pad(values, (0, short), value=self._pad_id if name == "input_ids" else 0)
            for name, values in tensors.items()
        }
        return {**padded, "response_mask": padded["loss_mask"]}
