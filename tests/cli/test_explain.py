"""``rllm-renderer explain``."""

import json


def test_the_winner_and_every_verdict_as_json(run, toy):
    result = run("explain", "toy/one", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 0
    assert data["model"] == "toy/one" and data["winner"] == "toy"
    by_name = {each["backend"]: each for each in data["verdicts"]}
    assert by_name["toy"]["verdict"] == "covers" and by_name["toy"]["priority"] == 60 and by_name["toy"]["renderer"] == "plain"
    assert by_name["chat-template"]["verdict"] == "covers" and by_name["chat-template"]["match"] == "fallback"


def test_the_table_marks_the_winner_and_isnt_wrapped(run, toy):
    lines = run("explain", "toy/one").stdout.splitlines()
    assert lines[0] == "toy/one: toy wins"
    assert [line.split()[0] for line in lines if line.startswith("*")] == ["*"]
    assert any(line.startswith("*") and "made for it" in line for line in lines)
    assert len(lines) == 4
    assert all("\x1b" not in line and line == line.rstrip() for line in lines)


def test_a_fix_is_shown(run, toy):
    assert "its vocabulary isn't here; fix: fetch the vocabulary" in run("explain", "toy/sick").stdout


def test_options_decide_as_in_resolve(run, toy):
    assert json.loads(run("explain", "toy/one", "--backend", "chat-template", "--json").stdout)["winner"] == "chat-template"
    assert json.loads(run("explain", "other/one", "--template-bridge", "--json").stdout)["verdicts"][-1]["has_bridge"]


def test_no_winner_is_status_1_with_the_reason(run, toy):
    result = run("explain", "toy/one", "--renderer", "nothing", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["winner"] is None
    assert "nothing" in json.loads(result.stdout)["reason"]


def test_bad_options_are_said_with_what_is_wrong(run, toy):
    for arguments in (
        ["--chat-template-kwargs", "{"],
        ["--chat-template-kwargs", "[1]"],
        ["--renderer", "a", "--renderer-name", "b"],
    ):
        result = run("explain", "toy/one", *arguments)
        assert result.exit_code == 2 and result.stdout == ""
        assert result.stderr.startswith("rllm-renderer: ") and "Traceback" not in result.stderr
