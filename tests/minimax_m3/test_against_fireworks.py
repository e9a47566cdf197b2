"""The Fireworks cookbook's renderer agrees, on render and bridge; where it doesn't, the template is on our side."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import m3_tokenizer as m3
import pytest
from m3_corpus import CORPUS, LOOK

m3.load()
pytestmark = [pytest.mark.whole, pytest.mark.needs("cookbook")]
SCRIPT = pathlib.Path(m3.__file__).with_name("m3_fireworks.py")
MODES = ("enabled", "disabled", "adaptive")
CASES = [
    {"shape": shape, "messages": messages, "tools": tools, "mode": mode}
    for shape, messages in CORPUS.items()
    for tools in (None, [LOOK])
    for mode in MODES
]
# The template ends the turn of results at a message that it leaves out; the cookbook drops that message first and then
# puts the results into one turn.
DIFFERENT = {"results split by a system message"}


@pytest.fixture(scope="module")
def theirs():
    path = [sys.executable, "-W", "ignore", str(SCRIPT)]
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "", "HOME": "/", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(path, input=json.dumps(CASES), capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    if "missing" in answer:
        pytest.skip(answer["missing"])
    return answer["ids"]


def ours(case):
    return m3.renderer(thinking_mode=case["mode"]).render_ids(case["messages"], tools=case["tools"], add_generation_prompt=True)


def test_prompts_agree(theirs):
    differing = {case["shape"] for case, ids in zip(CASES, theirs, strict=True) if ids != ours(case)}
    assert differing == DIFFERENT
    for case in CASES:
        if case["shape"] in DIFFERENT:
            keywords = {"thinking_mode": case["mode"]}
            assert ours(case) == m3.template_ids(case["messages"], case["tools"], True, **keywords)


def test_bridges_agree(theirs):
    """Each prompt that ends in new messages after an assistant turn, made by a bridge."""
    compared = 0
    for case, ids in zip(CASES, theirs, strict=True):
        messages = case["messages"]
        at = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=None)
        if at is None or at == len(messages) - 1 or case["shape"] in DIFFERENT:
            continue
        subject = m3.renderer(thinking_mode=case["mode"])
        prompt = subject.render_ids(messages[:at], tools=case["tools"], add_generation_prompt=True)
        turn = subject.render_ids(messages[: at + 1], tools=case["tools"])
        if turn[: len(prompt)] != prompt:
            continue  # the turn isn't one that this thinking mode's opener begins
        bridged = subject.bridge_to_next_turn(prompt, turn[len(prompt) : -1], messages[at + 1 :], tools=case["tools"])
        assert bridged.token_ids == ids
        compared += 1
    assert compared >= 20
