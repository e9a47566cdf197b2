"""Rollouts as rLLM's steps, read back with its own ``Trajectory``."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest
import rllm_source
from played_rollouts import LIDS, OPENING, played
from rllm_renderer_rllm import rllm_steps
from rllm_renderer_training import Rollout, RolloutError
from toy import END, ToyRenderer, encode

from rllm_renderer_core.testing import wrap


def test_rllm_steps_are_the_turns():
    one, _ = played()
    steps = rllm_steps(one)
    assert [step["response_ids"] for step in steps] == [
        encode("four"),  # its stop, whose log-probability isn't known, stands in the next prompt
        [*encode("two"), END, END],
        [*encode("one"), END],
    ]
    assert steps[0]["logprobs"] == [-0.1, -0.2, -0.3, -0.4] and steps[2]["logprobs"] == [-2.0] * 4
    assert steps[1]["prompt_ids"][: len(steps[0]["prompt_ids"]) + 5] == [*steps[0]["prompt_ids"], *encode("four"), END]
    assert [step["done"] for step in steps] == [False, False, True]
    assert [step["model_response"] for step in steps] == ["four", "two", "one"]
    assert [message["content"] for message in steps[1]["chat_completions"]] == ["How many?", "four", "And lids?", "two"]


@pytest.mark.needs("rllm")
def test_rllm_takes_them(tmp_path):
    root = rllm_source.source()
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from played_rollouts import played
from rllm_renderer_rllm import to_rllm
from rllm.types import Trajectory
out = to_rllm(played()[0], name="solver", reward=1.0)
assert type(out) is Trajectory and out.is_cumulative() and out.reward == 1.0
again = Trajectory.from_dict(out.to_dict())
assert [step.response_ids for step in again.steps] == [step.response_ids for step in out.steps]
print(len(again.steps))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(root)}
    )
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"rLLM can't be imported here, so that its Trajectory isn't proven: {done.stderr.splitlines()[-1]}")
    assert done.stdout.strip() == "3", done.stderr


def test_a_turn_with_an_untrained_id_inside_is_refused():
    """An id that the engine gave no log-probability for, and one that it forced."""
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    rollout.record(encode("four"), [-0.1, None, -0.3, 0.0], stop_reason=END, forced=[False, False, True, False])
    with pytest.raises(RolloutError, match="2 ids inside a turn were forced or have no log-probability"):
        rllm_steps(rollout)


def test_turns_with_and_without_logprobs_are_refused():
    rollout = played()[1]
    segment = rollout.segments[0]
    segment.turns[0] = dataclasses.replace(segment.turns[0], logprobs=None)
    segment.turns.append(dataclasses.replace(segment.turns[0], start=segment.turns[0].end - 1, logprobs=(-1.0,)))
    with pytest.raises(RolloutError, match="some turns have log-probabilities and some have none"):
        rllm_steps(rollout)


def test_without_any_logprob_none_is_made_up():
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    rollout.record(encode("four"), stop_reason=END)
    assert rllm_steps(rollout)[0]["logprobs"] == []


def test_what_nothing_was_sampled_behind_is_in_no_step():
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    ids = [*encode("four"), END]
    rollout.record(ids, [-0.5] * len(ids))
    rollout.extend(LIDS)
    assert [step["response_ids"] for step in rllm_steps(rollout)] == [ids]
