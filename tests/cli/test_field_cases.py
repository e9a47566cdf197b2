"""The command line where it failed a new user once: what can't be compared, pins, folders, narrow terminals, typing errors."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from rllm_renderer_template.parity.probes import PROBES
from toy_template import TemplateTokenizer, plugin_source

import rllm_renderer_core
from rllm_renderer_core import PinMismatchError, TokenizerError, resolve, select_backend

ROOT = pathlib.Path(rllm_renderer_core.__file__).parents[1]


@pytest.fixture
def tokenizers(monkeypatch):
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    found = {"toy": TemplateTokenizer()}
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: found[name])
    return found


@pytest.fixture
def listed(no_plugins, install, tokenizers):
    install("rllm-renderer-toy", source=plugin_source("right", listed={"toy/right": "right", "toy/trims": "trims"}))


@pytest.mark.usefixtures("listed")
def test_a_template_that_refuses_everything_is_status_2_and_why(run, tokenizers):
    tokenizers["broken"] = TemplateTokenizer(lambda messages: "unexpected end of template")
    result = run("verify", "toy/right", "--tokenizer", "broken")
    assert result.exit_code == 2 and result.stdout == ""
    assert f"refuses all of the {len(PROBES)} conversations: " in result.stderr
    assert "unexpected end of template" in result.stderr


@pytest.mark.usefixtures("listed")
def test_verify_compares_the_conversations_of_a_file(run, tmp_path):
    file = tmp_path / "data.jsonl"
    good, edges = [{"role": "user", "content": "hi"}], [{"role": "user", "content": " hi "}]
    file.write_text("\n".join(json.dumps(each) for each in [good, {"messages": good, "tools": []}, edges]) + "\n\n")
    result = run("verify", "toy/trims", "--tokenizer", "toy", "--messages", str(file))
    assert result.exit_code == 1
    assert "line 3: id 2 differs" in result.stdout and "equal on 2 of 3 probes" in result.stdout
    assert run("verify", "toy/right", "--tokenizer", "toy", "--messages", str(file)).exit_code == 0
    for text, why in (
        ("{", "line 1 isn't JSON"),
        ("[]", "line 1 holds no message"),
        ("3", "line 1 must hold a list of messages, or an object"),
    ):
        file.write_text(text)
        result = run("verify", "toy/right", "--tokenizer", "toy", "--messages", str(file))
        assert result.exit_code == 2 and why in result.stderr


@pytest.mark.parametrize("content", [None, "{", "[]", '{"schema": 99}'], ids=["missing", "no JSON", "a list", "old"])
def test_doctor_checks_the_pin(run, toy, tmp_path, monkeypatch, content):
    file = tmp_path / "pin.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("RLLM_RENDERER_PIN", str(file))
    result = run("doctor", "--no-imports", "--json")
    assert result.exit_code == 1
    problems = [each["what"] for each in json.loads(result.stdout)["findings"] if each["problem"]]
    assert any(what.startswith(f"RLLM_RENDERER_PIN={file} ") for what in problems)


def test_a_pin_that_can_be_reproduced_is_no_finding(run, toy, tmp_path, monkeypatch):
    file = tmp_path / "pin.json"
    file.write_text(json.dumps(select_backend("toy/one").to_dict()))
    monkeypatch.setenv("RLLM_RENDERER_PIN", str(file))
    assert "RLLM_RENDERER_PIN=" not in "".join(
        e["what"] for e in json.loads(run("doctor", "--no-imports", "--json").stdout)["findings"]
    )
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "plugin": "rllm-renderer-toy 99"}))
    found = json.loads(run("doctor", "--no-imports", "--json").stdout)["findings"]
    assert any("can't be reproduced here: plugin: " in each["what"] for each in found)


@pytest.mark.usefixtures("listed")
def test_a_folder_is_explained_and_pinned_as_it_is_resolved(run, tokenizers, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    folder = str(tmp_path)
    tokenizers[folder] = TemplateTokenizer()
    expected = resolve(folder, tokenizers[folder]).resolution
    assert expected.backend == "toy"
    assert json.loads(run("explain", folder, "--json").stdout)["winner"] == "toy"
    pin = json.loads(run("pin", folder).stdout)
    assert (pin["backend"], pin["renderer"], pin["match"]) == (expected.backend, expected.renderer, expected.match)


@pytest.mark.usefixtures("listed")
def test_a_path_is_a_pin_and_what_is_gone_is_a_mismatch(tmp_path, monkeypatch):
    file = tmp_path / "pin.json"
    file.write_text(json.dumps(select_backend("toy/right").to_dict()))
    for pin in (file, str(file)):
        assert resolve(pin=pin, tokenizer=TemplateTokenizer()).name == "right"
    with pytest.raises(PinMismatchError, match="can't be read"):
        resolve(pin="nowhere.json", tokenizer=TemplateTokenizer())
    data = json.loads(file.read_text())
    with pytest.raises(
        PinMismatchError, match=r"gone:right of rllm-renderer-gone 1\.0 was pinned, and .* isn't installed"
    ) as caught:
        resolve(pin={**data, "backend": "gone", "plugin": "rllm-renderer-gone 1.0"}, tokenizer=TemplateTokenizer())
    assert "rllm-renderer-gone 1.0" in caught.value.fix and caught.value.differences


def test_what_a_plugin_prints_is_not_the_output(run, no_plugins, install, toy_source):
    source = "print('hello from the plugin')\n" + toy_source().replace(
        "def covers(self, query):", "def covers(self, query):\n        print('asked')"
    )
    install("rllm-renderer-toy", source=source)
    result = run("explain", "toy/one", "--json")
    assert json.loads(result.stdout)["winner"] == "toy"
    assert "asked" in result.stderr


def test_a_missing_tokenizer_says_so(run, toy):
    result = run("pin", "toy/one", "--tokenizer", "./missing")
    assert result.exit_code == 2 and "there is no folder ./missing" in result.stderr


def test_did_you_mean(run):
    result = run("explian", "x")
    assert result.exit_code == 2 and "no command 'explian': did you mean 'explain'?" in result.stderr


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_narrow_terminal_keeps_the_reason(run, toy, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = " ".join(run("explain", "toy/sick").stdout.split())
    assert "its vocabulary isn't here; fix: fetch the vocabulary" in out


def test_as_a_module_and_on_a_full_disk(python):
    command = [sys.executable, "-m", "rllm_renderer_cli", "plugins", "--json"]
    env = dict(os.environ)
    out = subprocess.run(command, capture_output=True, text=True, env=env)
    assert out.returncode == 0 and isinstance(json.loads(out.stdout), list)
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        out = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert out.returncode == 1 and "Traceback" not in out.stderr and "can't write the output" in out.stderr


def test_ctrl_c_is_no_traceback(run, no_plugins, install, toy_source):
    source = toy_source().replace("def covers(self, query):", "def covers(self, query):\n        raise KeyboardInterrupt")
    install("rllm-renderer-toy", source=source)
    result = run("explain", "toy/one")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "rllm-renderer: stopped\n")


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"[rllm_renderer]\nx = \xff\xfe\n", "UnicodeDecodeError"), (None, "is an empty folder without metadata")],
    ids=["not UTF-8", "an empty folder"],
)
def test_doctor_names_metadata_that_cant_be_read(run, no_plugins, tmp_path, monkeypatch, content, why):
    folder = tmp_path / "rllm_renderer_odd-1.0.dist-info"
    folder.mkdir()
    if content is not None:
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rllm-renderer-odd\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    result = run("doctor", "--no-imports", "--json")
    assert result.exit_code == 1
    problems = [each["what"] for each in json.loads(result.stdout)["findings"] if each["problem"]]
    assert any(str(folder) in what and why in what for what in problems), problems


def test_a_tokenizers_name_is_no_tokenizer():
    with pytest.raises(TokenizerError, match="tokenizer='gpt2' is a str, not a tokenizer: it has no encode"):
        resolve("toy/right", "gpt2")
