"""Rollouts as trainers take them, read back with the trainers' own libraries."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest
import rllm_source
from rllm_renderer_training import Rollout, RolloutError
from rllm_renderer_training.export.arrays import IGNORED, Row, to_arrays, to_rows
from rllm_renderer_training.export.frameworks import rllm_steps, to_verl
from supervised_backends import on
from toy import END, ToyRenderer, encode

from rllm_renderer_core.testing import wrap

np = pytest.importorskip("numpy", reason="numpy isn't installed: the exports aren't proven")

OPENING = [{"role": "user", "content": "How many?"}]
LIDS = [{"role": "user", "content": "And lids?"}]
PAD = 0


def played():
    """Two rollouts: one of two turns and a declined bridge, whose stop was stripped; one of a turn, with an empty segment."""
    renderer = wrap(ToyRenderer())
    one = Rollout(renderer)
    one.begin(OPENING)
    one.record(encode("four"), [-0.1, -0.2, -0.3, -0.4], stop_reason=END)
    one.extend(LIDS)
    one.record([*encode("two"), END, END], [-1.0] * 5)
    one.extend(LIDS)  # declined: two stops
    one.record([*encode("one"), END], [-2.0] * 4)
    other = Rollout(renderer)
    other.begin([*OPENING, *LIDS])
    other.record([*encode("six"), END], [-3.0] * 4)
    other.rewrite(OPENING)
    return [one, other]


def trained(rollouts):
    """By segments that have any, the sampled ids whose log-probability is known, with it."""
    return [
        [
            (token, round(logprob, 5))
            for token, mine, logprob in zip(segment.token_ids, segment.sampled_mask, segment.logprobs, strict=True)
            if mine and logprob is not None
        ]
        for rollout in rollouts
        for segment in rollout.segments
        if segment.turns
    ]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("left_pad", [False, True])
def test_padded_arrays(library, left_pad):
    if library == "torch":
        pytest.importorskip("torch", reason="torch isn't installed: its tensors aren't proven")
    rollouts = played()
    batch = to_arrays(rollouts, pad_id=PAD, left_pad=left_pad, library=library)
    assert type(batch.input_ids).__module__.split(".")[0] == library
    assert batch.rows == [Row(0, 0), Row(0, 1), Row(1, 0)] and batch.omitted == [Row(1, 1)] and batch.versions is None
    read = []
    for number, row in enumerate(batch.rows):
        segment = rollouts[row.rollout].segments[row.segment]
        here = np.asarray(batch.attention_mask[number]).astype(bool)
        assert np.asarray(batch.input_ids[number])[here].tolist() == segment.token_ids
        assert np.asarray(batch.position_ids[number])[here].tolist() == list(range(len(segment.token_ids)))
        assert here[-1 if left_pad else 0] and set(np.asarray(batch.input_ids[number])[~here].tolist()) <= {PAD}
        spanned = np.zeros(len(here), dtype=bool)
        for start, end in batch.spans[number]:
            spanned[start:end] = True
        assert spanned.sum() == segment.sampled_count
        mask = np.asarray(batch.loss_mask[number]).astype(bool)
        assert not (mask & ~spanned).any() and not np.asarray(batch.logprobs[number])[~mask].any()
        ids, logprobs = np.asarray(batch.input_ids[number])[mask], np.asarray(batch.logprobs[number])[mask]
        read.append([(int(a), round(float(b), 5)) for a, b in zip(ids, logprobs, strict=True)])
    assert read == trained(rollouts)
    assert int(np.asarray(batch.loss_mask).sum()) == sum(each.segments[0].sampled_count for each in rollouts) + 4 - 1


def test_an_id_without_a_logprob_is_trained_by_no_export():
    """A stop that was put back, an id that the engine gave none for, and one that it forced."""
    rollout = Rollout(wrap(ToyRenderer()))
    prompt = rollout.begin(OPENING)
    rollout.record(encode("four"), [-0.1, None, -0.3, 0.0], stop_reason=END, forced=[False, False, True, False])
    wanted = [1, 0, 0, 1, 0]
    batch = to_arrays([rollout], pad_id=PAD)
    assert batch.loss_mask[0, len(prompt) :].tolist() == wanted and not batch.loss_mask[0, : len(prompt)].any()
    assert batch.logprobs[0, len(prompt) :].tolist() == pytest.approx([-0.1, 0.0, 0.0, 0.0, 0.0])
    (row,) = to_rows([rollout])
    assert row["completion_mask"][len(prompt) :] == wanted and row["logprobs"][len(prompt) :] == [-0.1, None, None, 0.0, None]
    assert [label != IGNORED for label in row["labels"][len(prompt) :]] == [bool(kept) for kept in wanted]
    with pytest.raises(RolloutError, match="2 ids inside a turn were forced or have no log-probability"):
        rllm_steps(rollout)
    pytest.importorskip("torch", reason="torch isn't installed: verl's layout isn't proven")
    assert to_verl([rollout], pad_id=PAD).tensors["response_mask"].tolist() == [wanted]


def test_turns_with_and_without_logprobs_are_refused_by_every_export():
    rollouts = played()
    segment = rollouts[1].segments[0]
    segment.turns[0] = dataclasses.replace(segment.turns[0], logprobs=None)
    for export in (lambda r: to_arrays(r, pad_id=PAD), to_rows, lambda r: to_verl(r, pad_id=PAD)):
        with pytest.raises(RolloutError, match="some turns have log-probabilities and some have none"):
            export(rollouts)
    segment.turns.append(dataclasses.replace(segment.turns[0], start=segment.turns[0].end - 1, logprobs=(-1.0,)))
    with pytest.raises(RolloutError, match="some turns have log-probabilities and some have none"):
        rllm_steps(rollouts[1])


def test_without_any_logprob_all_that_was_sampled_is_trained_and_no_logprob_is_made_up():
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    rollout.record(encode("four"), stop_reason=END)
    batch = to_arrays([rollout], pad_id=PAD)
    assert int(batch.loss_mask.sum()) == 5 and batch.logprobs is None
    assert to_rows([rollout])[0]["logprobs"] is None and rllm_steps(rollout)[0]["logprobs"] == []
    pytest.importorskip("torch", reason="torch isn't installed: verl's layout isn't proven")
    tensors = to_verl([rollout], pad_id=PAD).tensors
    assert "rollout_log_probs" not in tensors and int(tensors["response_mask"].sum()) == 5


@pytest.mark.parametrize(("model", "backend"), [("Qwen/Qwen3-8B", "prime"), ("Qwen/Qwen3-8B", "chat-template")])
def test_a_long_result_that_nothing_was_sampled_behind_is_not_exported(model, backend):
    served = on(model, backend)
    call = {"type": "function", "id": "call00000", "function": {"name": "look", "arguments": '{"q": "tea"}'}}
    asked = [{"role": "user", "content": "Look."}]
    rollout = Rollout(served.renderer)
    prompt = rollout.begin(asked, tools=[{"name": "look", "parameters": {"type": "object"}}])
    whole = served.renderer.render_ids(
        [*asked, {"role": "assistant", "content": "", "tool_calls": [call]}], tools=rollout.tools
    )
    stop = max(at for at, token in enumerate(whole) if token in served.renderer.get_stop_token_ids())
    ids = whole[len(prompt) : stop + 1]
    parsed = rollout.record(ids, [-0.5] * len(ids))
    result = {"role": "tool", "tool_call_id": parsed.tool_calls[0].id, "content": "tea " * 3000}
    before = rollout.to_dict()
    assert rollout.remaining(1024, [result]) == 0 and rollout.remaining(1024) == 1024 - len(prompt) - len(ids)
    assert rollout.to_dict() == before
    prompt_behind = rollout.extend([result])
    assert rollout.remaining(8192) == 8192 - len(prompt_behind) and len(prompt_behind) > 3000
    size = len(prompt) + len(ids)
    assert to_arrays([rollout], pad_id=PAD, max_len=1024).input_ids[0, :size].tolist() == prompt + ids
    assert [row["input_ids"] for row in to_rows([rollout])] == [prompt + ids]
    assert to_arrays([rollout], pad_id=PAD).input_ids.shape == (1, size)
    assert [step["response_ids"] for step in rllm_steps(rollout)] == [ids]
    pytest.importorskip("torch", reason="torch isn't installed: verl's layout isn't proven")
    batch = to_verl([rollout], pad_id=PAD, max_prompt_length=len(prompt), max_response_length=len(ids))
    assert batch.tensors["responses"].tolist() == [ids]


def test_what_is_too_long_is_never_cut():
    with pytest.raises(RolloutError, match=r"segment 0 of rollout 0 has .* more than max_len=20"):
        to_arrays(played(), pad_id=PAD, max_len=20)
    assert to_arrays(played(), pad_id=PAD, max_len=500).input_ids.shape == (3, 500)


def test_no_rollout_is_an_empty_batch():
    assert to_arrays([], pad_id=PAD).input_ids.shape == (0, 0)


def test_rows_of_a_data_set_come_back_as_they_were():
    datasets = pytest.importorskip("datasets", reason="datasets isn't installed: rows of it aren't proven")
    rollouts = played()
    table = datasets.Dataset.from_list(to_rows(rollouts))
    assert len(table) == 3
    for row in table:
        segment = rollouts[row["rollout"]].segments[row["segment"]]
        assert row["input_ids"] == segment.token_ids
        assert [label for label in row["labels"] if label != IGNORED] == [
            token for token, logprob in zip(segment.token_ids, segment.logprobs, strict=True) if logprob is not None
        ]
        assert row["completion_mask"] == [int(value is not None) for value in segment.logprobs]
        assert row["logprobs"] == segment.logprobs
    assert table[0]["turns"][0]["restored_stop"] is True


def test_verl_layout():
    torch = pytest.importorskip("torch", reason="torch isn't installed: verl's layout isn't proven")
    rollouts = played()
    batch = to_verl(rollouts, pad_id=PAD, non_tensors={"uid": ["a", "b"]})
    check_verl(torch, rollouts, batch.tensors, batch.non_tensors)
    assert batch.omitted == [Row(1, 1)]
    with pytest.raises(RolloutError, match="max_response_length=3"):
        to_verl(rollouts, pad_id=PAD, max_response_length=3)


def check_verl(torch, rollouts, tensors, non_tensors):
    width = tensors["prompts"].shape[1]
    assert torch.equal(tensors["input_ids"], torch.cat([tensors["prompts"], tensors["responses"]], dim=1))
    expected = (tensors["attention_mask"].cumsum(1) - 1) * tensors["attention_mask"]
    assert torch.equal(tensors["position_ids"], expected)
    read = []
    for number in range(len(tensors["prompts"])):
        segment = rollouts[non_tensors["rollout"][number]].segments[non_tensors["segment"][number]]
        here = tensors["attention_mask"][number].bool()
        assert tensors["input_ids"][number][here].tolist() == segment.token_ids
        assert here[:width].sum() == segment.turns[0].start and here[width - 1]
        mine = tensors["response_mask"][number].bool()
        ids, logprobs = tensors["responses"][number][mine].tolist(), tensors["rollout_log_probs"][number][mine].tolist()
        read.append([(a, round(b, 5)) for a, b in zip(ids, logprobs, strict=True)])
    assert read == trained(rollouts)
    assert list(non_tensors["uid"]) == ["a", "a", "b"]


@pytest.mark.needs("verl")
def test_verl_takes_it():
    import torch

    rollouts = played()
    data = to_verl(rollouts, pad_id=PAD, non_tensors={"uid": ["a", "b"]}).to_dataproto()
    check_verl(torch, rollouts, data.batch, data.non_tensor_batch)
    assert len(data) == 3 and len(data.chunk(3)) == 3


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
sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
from test_export import played
from rllm_renderer_training.export.frameworks import to_rllm
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
