"""``rllm-renderer detect``: the table of candidates, and the line of Python that pins the winner."""

from __future__ import annotations

import json

import pytest
from rllm_renderer_template.parity.probes import PROBES
from toy import ToyTokenizer
from toy_template import TemplateTokenizer, plugin_source

from rllm_renderer_core import resolve

ALL = f"{len(PROBES)} of {len(PROBES)}"


@pytest.fixture(autouse=True)
def tokenizers(no_plugins, monkeypatch):
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    found = {"toy": TemplateTokenizer(), "bare": ToyTokenizer()}
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: found[name])
    return found


def test_the_table_and_the_pin(run, install, tokenizers):
    install("rllm-renderer-toy", source=plugin_source("trims", "right", "broken", "no-system-later"))
    result = run("detect", "--tokenizer", "toy")
    assert result.exit_code == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["renderer", "probes", "bridges", "ms", "why", "not"]
    assert lines[1].split()[:2] == ["*", "toy:right"] and ALL in lines[1] and "9 agree" in lines[1]
    assert "toy:no-system-later" in lines[2] and "refuses 'a system message in the middle'" in lines[2]
    assert "toy:trims" in lines[3] and "first on 'white space at the edges'" in lines[3]
    assert lines[4] == "1 more can't be built on this tokenizer (--all shows them)"
    assert lines[5] == "resolve('nobody/knows', tokenizer, backend='toy', renderer='right')"
    renderer = eval(lines[5], {"resolve": resolve, "tokenizer": tokenizers["toy"]})
    assert (renderer.backend, renderer.name) == ("toy", "right")
    assert "RuntimeError: no vocabulary" in run("detect", "--tokenizer", "toy", "--all").stdout


def test_nobody_is_status_1_with_the_nearest(run, install):
    install("rllm-renderer-toy", source=plugin_source("trims"))
    result = run("detect", "--tokenizer", "toy")
    assert result.exit_code == 1
    assert "the nearest is toy:trims" in result.stdout.splitlines()[-1]


def test_json(run, install):
    install("rllm-renderer-toy", source=plugin_source("trims", "right"))
    data = json.loads(run("detect", "--tokenizer", "toy", "--model", "me/mine", "--json").stdout)
    assert data["winner"] == "toy:right" and data["pin"].startswith("resolve('me/mine', ")
    assert [(each["renderer"], each["passed"]) for each in data["candidates"]] == [("trims", False), ("right", True)]
    assert len(data["candidates"][1]["bridges"]) == 9


def test_nothing_to_compare_with_is_one_line(run, install, tokenizers):
    install("rllm-renderer-toy", source=plugin_source("right"))
    result = run("detect", "--tokenizer", "bare")
    assert result.exit_code == 2 and result.stderr == "rllm-renderer: the tokenizer has no chat template to compare with\n"
    tokenizers["toy"].refuses = lambda messages: "not today"
    result = run("detect", "--tokenizer", "toy")
    assert result.exit_code == 2 and "proves too little" in result.stderr


def test_without_candidates(run):
    result = run("detect", "--tokenizer", "toy")
    assert result.exit_code == 1 and "no installed backend has a renderer" in result.stdout
