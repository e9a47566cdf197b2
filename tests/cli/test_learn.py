"""``rllm-renderer learn``: what is learned of a checkpoint's template, as a table and as JSON."""

from __future__ import annotations

import json

import pytest
import real_tokenizers


@pytest.fixture
def folder(tmp_path):
    def save(model):
        if real_tokenizers.missing(model):
            pytest.skip(real_tokenizers.missing(model))
        real_tokenizers.load(model).save_pretrained(tmp_path)
        return str(tmp_path)

    return save


def test_frames_and_proofs_of_a_checkpoint(folder, run):
    where = folder("Qwen/Qwen3-8B")
    out = run("learn", where, "--json")
    assert out.exit_code == 0, out.output
    data = json.loads(out.stdout)
    assert data["parses_tool_calls"] and data["proofs"] and "<tool_call>" in data["delimiters"]["before calls"]
    assert data["stops"] == ["<|im_end|>"]
    text = run("learn", where)
    assert text.exit_code == 0 and "<tool_call>" in text.stdout and data["summary"][:20] in text.stdout


def test_a_response_template_is_written_or_the_reason_is_said(folder, run, tmp_path):
    from rllm_renderer_template.chat_template.response_template import engine

    where, path = folder("Qwen/Qwen3-8B"), tmp_path / "response_template.json"
    out = run("learn", where, "--response-template", str(path))
    if engine() is None:
        assert out.exit_code == 2 and "5.13" in out.stderr and not path.exists()
    else:
        assert out.exit_code == 0 and json.loads(path.read_text("utf-8"))["fields"]["tool_calls"]["open"] == "<tool_call>"
