"""``rllm-renderer pin`` and ``check``."""

from __future__ import annotations

import json

import pytest

from rllm_renderer_core import Resolution, select_backend


@pytest.fixture
def pin(run, toy, tmp_path):
    """``pin(*options, **changes)``: the path of a pin file."""

    def pin(*options, name="renderer.json", **changes):
        result = run("pin", "toy/one", *options)
        assert result.exit_code == 0
        file = tmp_path / name
        file.write_text(json.dumps({**json.loads(result.stdout), **changes}))
        return str(file)

    return pin


def test_it_prints_the_resolution_as_json(run, toy):
    data = json.loads(run("pin", "toy/one").stdout)
    assert Resolution.from_dict(data) == select_backend("toy/one")
    assert (data["backend"], data["renderer"], data["plugin"]) == ("toy", "plain", "rllm-renderer-toy 1.0")


def test_with_a_tokenizer_it_pins_what_resolve_gives(run, toy):
    rendered, named = (json.loads(run("pin", "toy/one", *more).stdout) for more in (("--tokenizer", "toy"), ()))
    assert rendered.pop("written") and named.pop("written") == ""
    assert rendered == named


def test_check_with_a_tokenizer_compares_what_is_written(run, pin):
    file = pin("--tokenizer", "toy")
    assert run("check", file, "--tokenizer", "toy").exit_code == 0
    other = pin(written="0123456789abcdef")
    assert run("check", other).exit_code == 0
    result = run("check", other, "--tokenizer", "toy")
    assert result.exit_code == 1
    assert result.stdout.startswith("written: ") and result.stdout.endswith(" here, 0123456789abcdef there\n")


def test_a_pin_that_holds_is_said_in_a_line(run, pin):
    result = run("check", pin())
    assert (result.exit_code, result.stdout) == (0, "toy:plain for toy/one, as pinned\n")


def test_each_difference_is_a_line_and_status_1(run, pin):
    result = run("check", pin(plugin="rllm-renderer-toy 0.9", core="0.0", has_bridge=False))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "has_bridge: true here, false there",
        "plugin: rllm-renderer-toy 1.0 here, rllm-renderer-toy 0.9 there",
    ]


def test_two_pins_are_compared_by_their_files_names(run, pin):
    one, two = pin(name="engine.json"), pin("--thinking-retention", "tool_cycle", name="gateway.json")
    assert run("check", one, one).stdout.startswith("toy:plain for toy/one, as in ")
    result = run("check", one, two)
    assert result.exit_code == 1
    assert result.stdout == f"options.thinking_retention: not set {one}, tool_cycle {two}\n"


def test_a_pin_with_an_image_processor_says_what_the_backend_makes_of_it(run, pin):
    """A pin knows its type alone; nothing is built, so that is enough."""
    result = run("check", pin(options={"image_processor": "SomeProcessor"}))
    assert result.exit_code == 1
    assert "can't honour image_processor" in result.stdout and "Traceback" not in result.stdout


def test_a_plugin_that_is_gone_is_a_difference(run, pin, monkeypatch):
    file = pin()
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "toy")
    result = run("check", file)
    assert result.exit_code == 1
    assert result.stdout.startswith("toy:plain of rllm-renderer-toy 1.0 was pinned, and ")
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize(("text", "reason"), [("{", "can't be read"), ("[1]", "holds list"), ("{}", "schema None")])
def test_a_file_that_is_no_pin_is_status_2(run, toy, tmp_path, text, reason):
    file = tmp_path / "renderer.json"
    file.write_text(text)
    result = run("check", str(file))
    assert result.exit_code == 2 and reason in result.stderr and result.stdout == ""
    assert run("check", str(tmp_path / "absent.json")).exit_code == 2


def test_a_pin_on_stdin(run, pin):
    with open(pin(), encoding="utf-8") as file:
        assert run("check", "-", input=file.read()).exit_code == 0


def test_no_backend_is_no_pin(run, toy):
    result = run("pin", "toy/one", "--renderer", "nothing")
    assert result.exit_code == 2 and result.stdout == ""


def test_with_a_pin_the_name_of_a_folder_doesnt_matter(run, pin, tmp_path):
    talk, folder = tmp_path / "talk.json", tmp_path / "checkpoint"
    folder.mkdir()
    talk.write_text('[{"role": "user", "content": "hi"}]')
    wanted = run("render", str(talk), "--tokenizer", "toy", "--model", "toy/one", "--ids").stdout
    options = ["--tokenizer", "toy", "--pin", pin(), "--ids"]
    assert run("render", str(talk), *options, "--model", str(folder)).stdout == wanted != ""
    refused = run("render", str(talk), *options, "--model", "toy/other")
    assert refused.exit_code == 2 and "model: 'toy/one' pinned, 'toy/other' passed" in refused.stderr
