"""Rollouts in verl's layout, read back with verl's own ``DataProto`` where it is installed."""

from __future__ import annotations

import dataclasses

import pytest
from played_rollouts import LIDS, OPENING, PAD, played, trained
from rllm_renderer_training import Rollout, RolloutError
from rllm_renderer_training.export.arrays import Row
from rllm_renderer_verl import to_verl
from toy import END, ToyRenderer, encode

from rllm_renderer_core.testing import wrap

pytest.importorskip("numpy", reason="numpy isn't installed: verl's layout isn't proven")
torch = pytest.importorskip("torch", reason="torch isn't installed: verl's layout isn't proven")


def test_verl_layout():
    rollouts = played()
    batch = to_verl(rollouts, pad_id=PAD, non_tensors={"uid": ["a", "b"]})
    check_verl(rollouts, batch.tensors, batch.non_tensors)
    assert batch.omitted == [Row(1, 1)]
    with pytest.raises(RolloutError, match="max_response_length=3"):
        to_verl(rollouts, pad_id=PAD, max_response_length=3)


def check_verl(rollouts, tensors, non_tensors):
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
    rollouts = played()
    data = to_verl(rollouts, pad_id=PAD, non_tensors={"uid": ["a", "b"]}).to_dataproto()
    check_verl(rollouts, data.batch, data.non_tensor_batch)
    assert len(data) == 3 and len(data.chunk(3)) == 3


def test_an_id_without_a_logprob_is_not_trained():
    """A stop that was put back, an id that the engine gave none for, and one that it forced."""
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    rollout.record(encode("four"), [-0.1, None, -0.3, 0.0], stop_reason=END, forced=[False, False, True, False])
    assert to_verl([rollout], pad_id=PAD).tensors["response_mask"].tolist() == [[1, 0, 0, 1, 0]]


def test_turns_with_and_without_logprobs_are_refused():
    rollouts = played()
    segment = rollouts[1].segments[0]
    segment.turns[0] = dataclasses.replace(segment.turns[0], logprobs=None)
    with pytest.raises(RolloutError, match="some turns have log-probabilities and some have none"):
        to_verl(rollouts, pad_id=PAD)


def test_without_any_logprob_all_that_was_sampled_is_trained():
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    rollout.record(encode("four"), stop_reason=END)
    tensors = to_verl([rollout], pad_id=PAD).tensors
    assert "rollout_log_probs" not in tensors and int(tensors["response_mask"].sum()) == 5


def test_what_nothing_was_sampled_behind_is_not_exported():
    rollout = Rollout(wrap(ToyRenderer()))
    prompt, ids = rollout.begin(OPENING), [*encode("four"), END]
    rollout.record(ids, [-0.5] * len(ids))
    assert len(rollout.extend(LIDS)) > len(prompt) + len(ids)
    batch = to_verl([rollout], pad_id=PAD, max_prompt_length=len(prompt), max_response_length=len(ids))
    assert batch.tensors["responses"].tolist() == [ids]
