"""Rollouts as trainers take them, read back with the trainers' own libraries."""

from __future__ import annotations

import dataclasses

import pytest
from played_rollouts import OPENING, PAD, played, trained
from rllm_renderer_training import Rollout, RolloutError
from rllm_renderer_training.export.arrays import IGNORED, Row, to_arrays, to_rows
from supervised_backends import on
from toy import END, ToyRenderer, encode

from rllm_renderer_core.testing import wrap

np = pytest.importorskip("numpy", reason="numpy isn't installed: the exports aren't proven")


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


def test_turns_with_and_without_logprobs_are_refused_by_every_export():
    rollouts = played()
    segment = rollouts[1].segments[0]
    segment.turns[0] = dataclasses.replace(segment.turns[0], logprobs=None)
    for export in (lambda r: to_arrays(r, pad_id=PAD), to_rows):
        with pytest.raises(RolloutError, match="some turns have log-probabilities and some have none"):
            export(rollouts)


def test_without_any_logprob_all_that_was_sampled_is_trained_and_no_logprob_is_made_up():
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    rollout.record(encode("four"), stop_reason=END)
    batch = to_arrays([rollout], pad_id=PAD)
    assert int(batch.loss_mask.sum()) == 5 and batch.logprobs is None
    assert to_rows([rollout])[0]["logprobs"] is None


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
