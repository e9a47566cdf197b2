"""Forks, JSON and pickles of a rollout: independent, small, and refused by another renderer."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import pytest
from rllm_renderer_training import Rollout, RolloutError
from toy import CALL, END, ToyRenderer, ToyTokenizer, encode

from rllm_renderer_core.testing import wrap

OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "How many?"}]
LIDS = [{"role": "user", "content": "And lids?"}]
TOOLS = [{"name": "look", "parameters": {"type": "object"}}]
FOUR = [*encode("four"), END]
BROKEN = [CALL, *encode("look"), END]


class Large(ToyTokenizer):
    """As large as a real tokenizer, and counted."""

    copies = 0

    def __init__(self):
        self.table = list(range(300_000))

    def __deepcopy__(self, memo):
        type(self).copies += 1
        return self


@pytest.fixture
def rollout():
    out = Rollout(wrap(ToyRenderer(), Large()))
    out.begin(OPENING, tools=TOOLS)
    out.record(FOUR, [-0.5] * 5)
    return out


def state(rollout):
    return json.loads(json.dumps(rollout.to_dict()))


def test_a_fork_goes_its_own_way(rollout):
    before = state(rollout)
    fork = rollout.fork()
    assert state(fork) == before and fork.renderer is rollout.renderer
    fork.extend(LIDS)
    fork.record([*encode("two"), END])
    fork.messages[0]["content"] = "changed"
    assert state(rollout) == before
    rollout.extend([{"role": "user", "content": "And cups?"}])
    assert len(fork.segments[0].turns) == 2 and len(rollout.segments[0].turns) == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_forks_and_copy_no_tokenizer(rollout, copied):
    Large.copies = 0
    other = copied(rollout)
    assert state(other) == state(rollout) and other.renderer is rollout.renderer and Large.copies == 0
    other.extend(LIDS)
    assert not rollout.declines and len(rollout.messages) == 3


def test_a_fork_may_leave_what_was_sampled_to_the_other(rollout):
    fork = rollout.fork(sampled=False)
    assert fork.segments[0].token_ids == rollout.segments[0].token_ids
    assert fork.segments[0].sampled_count == 0 and rollout.segments[0].sampled_count == 5
    fork.extend(LIDS)
    fork.record(FOUR)
    assert fork.segments[0].sampled_count == 5


def test_json_brings_it_all_back(rollout):
    rollout.extend(LIDS)
    rollout.record(BROKEN, finish_reason="stop")
    rollout.rewrite(OPENING, reason="compacted")
    rollout.record(FOUR[:2], [-1.0] * 2, finish_reason="abort", version=3)
    rollout.resume()
    rollout.record(FOUR[2:-1], [-1.0] * 2, stop_reason=END, version="4", forced=[True, False])
    data = json.loads(json.dumps(rollout.to_dict()))
    other = Rollout.from_dict(data, rollout.renderer)
    assert state(other) == data
    assert other.segments == rollout.segments and other.declines == rollout.declines and other.turns == 3
    assert other.segments[1].restored_stops == rollout.segments[1].restored_stops != []
    assert other.extend(LIDS) == rollout.extend(LIDS)


def test_another_renderer_is_refused(rollout):
    class Other(ToyRenderer):
        pass

    with pytest.raises(RolloutError, match="renderer: ToyRenderer recorded, Other there"):
        Rollout.from_dict(rollout.to_dict(), wrap(Other()))


SPOILED = {
    "no rollout": lambda data: {"schema": 7},
    "a text": lambda data: "x",
    "text as ids": lambda data: data["segments"][0].update(token_ids="abc"),
    "a turn beyond the ids": lambda data: data["segments"][0]["turns"][0].update(end=10_000),
    "a turn without message": lambda data: data["segments"][0]["turns"][0].update(message=10),
    "logprobs of another turn": lambda data: data["segments"][0]["turns"][0].update(logprobs=[-0.5]),
    "a prompt beyond the ids": lambda data: data["segments"][0].update(prompt_size=10_000),
    "a turn that starts behind its prompt": lambda data: data["segments"][0].update(turn_start=10_000),
    "no such segment": lambda data: data.update(current=7),
    "versions of another turn": lambda data: data["segments"][0]["turns"][0].update(versions=[1]),
    "no turns": lambda data: data["segments"][0].pop("turns"),
    "a message without role": lambda data: data["segments"][0]["messages"][0].pop("role"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_data_is_an_error(rollout, name):
    data = rollout.to_dict()
    spoiled = SPOILED[name](data)
    if name in ("no rollout", "a text"):
        data = spoiled
    with pytest.raises(RolloutError):
        Rollout.from_dict(data, rollout.renderer)


def test_a_pickle_has_no_tokenizer_and_finds_its_renderer_again(rollout):
    data = pickle.dumps(rollout)
    assert len(data) < 5_000 < len(pickle.dumps(rollout.renderer))
    other = pickle.loads(data)
    assert other.renderer is rollout.renderer and state(other) == state(rollout)
    assert other.extend(LIDS) == rollout.extend(LIDS)


def test_in_another_process_it_takes_the_renderer_that_it_is_given(rollout, tmp_path):
    (tmp_path / "rollout").write_bytes(pickle.dumps(rollout))
    expected = rollout.fork().extend(LIDS)
    script = f"""
import pathlib, pickle, sys
from toy import ToyRenderer
from rllm_renderer_training import RolloutError
from rllm_renderer_core.testing import wrap
rollout = pickle.loads(pathlib.Path({str(tmp_path / "rollout")!r}).read_bytes())
try:
    rollout.extend({LIDS!r})
except RolloutError as error:
    assert "attach(renderer)" in str(error)
class Other(ToyRenderer):
    pass
try:
    rollout.attach(wrap(Other()))
    raise AssertionError
except RolloutError as error:
    assert "another renderer" in str(error)
assert len(pickle.dumps(rollout)) < 5_000
rollout = pickle.loads(pickle.dumps(rollout))
print(rollout.attach(wrap(ToyRenderer())).extend({LIDS!r}) == {expected!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "True", done.stderr


def test_remaining_counts_what_still_fits(rollout):
    size = len(rollout.segments[0].token_ids)
    assert rollout.remaining(size + 7) == 7 and rollout.remaining(size - 7) == 0
    with pytest.raises(RolloutError, match="call begin first"):
        Rollout(rollout.renderer).remaining(10)
