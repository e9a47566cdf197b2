"""The data set class for verl's SFT trainer: the sequences that were written, in verl's layout."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from rllm_renderer_verl import SupervisedDataset

pyarrow = pytest.importorskip("pyarrow", reason="verl's data set isn't proved: pyarrow isn't installed")
torch = pytest.importorskip("torch", reason="verl's data set isn't proved: torch isn't installed")
parquet = pytest.importorskip("pyarrow.parquet")
ROWS = [([5, 6, 7, 8], [0.0, 0.0, 1.0, 1.0]), ([9, 10], [0.0, 0.5])]


class Tokenizer:
    pad_token_id = 3


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    table = pyarrow.table({"input_ids": [ids for ids, _ in ROWS], "weights": [weights for _, weights in ROWS], "row": [0, 1]})
    parquet.write_table(table, tmp_path / "part.parquet")
    return str(tmp_path / "part.parquet")


def as_lists(item: dict[str, Any]) -> dict[str, Any]:
    return {name: values.tolist() for name, values in item.items()}


def test_without_padding_it_is_the_sequence(file: str) -> None:
    data = SupervisedDataset([file, file], Tokenizer(), {"pad_mode": "no_padding", "max_length": 8})
    assert len(data) == 4
    assert as_lists(data[2]) == {"input_ids": [5, 6, 7, 8], "position_ids": [0, 1, 2, 3], "loss_mask": [0, 0, 1, 1]}
    assert data[0]["loss_mask"].dtype == torch.long and data[1]["loss_mask"].tolist() == [0.0, 0.5]


def test_padded_behind(file: str) -> None:
    item = as_lists(SupervisedDataset(file, Tokenizer(), {"max_length": 6}, None, 1)[0])
    assert item["input_ids"] == [5, 6, 7, 8, 3, 3] and item["attention_mask"] == [1, 1, 1, 1, 0, 0]
    assert item["position_ids"] == [0, 1, 2, 3, 0, 0]
    assert item["loss_mask"] == item["response_mask"] == [0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("mode", "side", "kept"), [("right", "left", [7, 8]), ("right", "right", [5, 6]), ("no_padding", "left", [5, 6])]
)
def test_what_is_too_long_is_cut_as_verl_cuts_it(file: str, mode: str, side: str, kept: list[int]) -> None:
    data = SupervisedDataset(file, Tokenizer(), {"pad_mode": mode, "truncation": side, "max_length": 2})
    assert data[0]["input_ids"].tolist() == kept


def test_what_is_too_long_is_an_error_by_default(file: str) -> None:
    with pytest.raises(ValueError, match="4 ids, more than max_length=2"):
        SupervisedDataset(file, Tokenizer(), {"max_length": 2})[0]
    with pytest.raises(ValueError, match="isn't one of verl's"):
        SupervisedDataset(file, Tokenizer(), {"pad_mode": "left_right"})
