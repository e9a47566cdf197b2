"""Turns that are sampled in parts: aborted and resumed, with ids that the engine forced, or behind a begun answer."""

from __future__ import annotations

import json
import pickle

import pytest
import toy
from rllm_renderer_training import Rollout, RolloutError
from rllm_renderer_training.export.arrays import to_arrays, to_rows
from supervised_backends import on
from toy import END, ToyRenderer, encode

from rllm_renderer_core import RendererError, Termination
from rllm_renderer_core.testing import wrap

OPENING = [{"role": "user", "content": "How many?"}]
LIDS = [{"role": "user", "content": "And lids?"}]
FOUR = [*encode("four"), END]
MODELS = [
    ("Qwen/Qwen3-8B", "prime"),
    ("Qwen/Qwen3-8B", "chat-template"),
    ("Qwen/Qwen3-8B", "tinker"),
    ("Qwen/Qwen3.5-9B", "prime"),
    ("Qwen/Qwen3.5-9B", "chat-template"),
    ("zai-org/GLM-5", "prime"),
    ("zai-org/GLM-5", "chat-template"),
    ("openai/gpt-oss-20b", "prime"),
    ("openai/gpt-oss-20b", "tinker"),
    ("meta-llama/Llama-3.2-3B-Instruct", "chat-template"),
    ("deepseek-ai/DeepSeek-V3.1", "tinker"),
    ("deepseek-ai/DeepSeek-V3.1", "chat-template"),
]


def begun(renderer=None):
    rollout = Rollout(renderer or wrap(ToyRenderer()))
    rollout.begin(OPENING)
    return rollout


def everything(rollout):
    return json.loads(json.dumps(rollout.to_dict()))


def spoken(served, text):
    """What the model samples for a turn of this text: between the generation prompt and its stop, as it is rendered."""
    prompt = served.renderer.render_ids(OPENING, add_generation_prompt=True)
    ids = served.tokenizer.encode(text, add_special_tokens=False)
    shown = served.renderer.render_ids([*OPENING, {"role": "assistant", "content": text}])
    stops = served.renderer.get_stop_token_ids()
    if shown[: len(prompt)] == prompt:
        ids = shown[len(prompt) :]
        ids = ids[: next((at for at, token in enumerate(ids) if token in stops), len(ids))]
    return prompt, ids


# Resumed


@pytest.mark.parametrize(("model", "backend"), MODELS)
def test_an_aborted_turn_that_is_resumed_is_the_turn_as_if_it_was_sampled_at_once(model, backend):
    served = on(model, backend)
    prompt, ids = spoken(served, "There are four jars, and one more behind the door.")
    stop = served.renderer.get_stop_token_ids()[-1]
    at_once = begun(served.renderer)
    at_once.record([*ids, stop], [-0.5] * (len(ids) + 1), version=1)
    for cut in (0, 1, len(ids) // 2, len(ids)):
        rollout = begun(served.renderer)
        rollout.record(ids[:cut], [-0.5] * cut, finish_reason="abort", version=1)
        assert rollout.resume() == prompt + ids[:cut] == rollout.prompt_ids
        rest = [*ids[cut:], stop]
        parsed = rollout.record(rest, [-0.5] * len(rest), version=1, finish_reason="stop")
        assert parsed.content.strip() == at_once.messages[-1]["content"].strip()
        (turn,), (expected,) = rollout.segments[0].turns, at_once.segments[0].turns
        assert turn == expected and rollout.segments[0].token_ids == at_once.segments[0].token_ids
        assert rollout.messages == at_once.messages and rollout.turns == 1
        assert rollout.fork().extend(LIDS) == at_once.fork().extend(LIDS)


def test_each_part_of_a_resumed_turn_keeps_its_weights_version_and_logprobs():
    rollout = begun()
    prompt = rollout.prompt_ids
    rollout.record(FOUR[:2], [-0.1, -0.2], finish_reason="abort", version=7)
    assert rollout.resume() == prompt + FOUR[:2]
    rollout.record(FOUR[2:3], finish_reason="abort")
    assert rollout.resume() == prompt + FOUR[:3]
    rollout.record(FOUR[3:], [-0.4, -0.5], finish_reason="stop", version="8")  # SGLang's weight_version is text
    rollout.extend(LIDS)
    rollout.record(FOUR, [-1.0] * 5, version=8)
    segment = rollout.segments[0]
    mine = [at for at, sampled in enumerate(segment.sampled_mask) if sampled]
    assert [segment.versions[at] for at in mine] == [7, 7, None, 8, 8] + [8] * 5
    assert [segment.logprobs[at] for at in mine] == [-0.1, -0.2, None, -0.4, -0.5] + [-1.0] * 5
    assert rollout.turns == len(segment.turns) == 2 and [m["content"] for m in rollout.messages[1::2]] == ["four", "four"]
    batch = to_arrays([rollout], pad_id=0)
    assert [int(batch.versions[0, at]) for at in mine] == [7, 7, -1, 8, 8] + [8] * 5
    assert int(batch.loss_mask[0, mine[2]]) == 0 and int(batch.loss_mask.sum()) == 9
    assert set(batch.versions[0, : mine[0]].tolist()) == {-1}
    assert to_rows([rollout])[0]["versions"][mine[0]] == 7
    assert "by weights version 7" in rollout.html() and "by weights version 8" in rollout.html()


def test_a_resumed_rollout_is_forked_written_and_pickled_in_the_middle_of_its_turn():
    rollout = begun()
    rollout.record(FOUR[:2], [-0.1, -0.2], finish_reason="length", version=7, forced=[True, False])
    rollout.resume()
    others = [rollout.fork(), Rollout.from_dict(everything(rollout), rollout.renderer), pickle.loads(pickle.dumps(rollout))]
    rollout.record(FOUR[2:], [-0.3] * 3, version=8)
    for other in others:
        other.record(FOUR[2:], [-0.3] * 3, version=8)
        assert everything(other) == everything(rollout)


def test_what_a_fork_leaves_to_the_other_stays_left_when_its_turn_is_resumed():
    rollout = begun()
    rollout.record(FOUR[:2], finish_reason="abort")
    fork = rollout.fork(sampled=False)
    fork.resume()
    fork.record(FOUR[2:])
    assert fork.segments[0].sampled_count == 3 and rollout.segments[0].sampled_count == 2
    assert fork.messages[-1]["content"] == "four" and fork.segments[0].turns[0].start == len(rollout.prompt_ids) + 2


def test_only_a_turn_without_its_stop_is_resumed():
    rollout = Rollout(wrap(ToyRenderer()))
    with pytest.raises(RolloutError, match="resume needs a recorded completion"):
        rollout.resume()
    rollout.begin(OPENING)
    with pytest.raises(RolloutError, match="resume needs a recorded completion"):
        rollout.resume()
    rollout.record(FOUR)
    before = everything(rollout)
    with pytest.raises(RolloutError, match="resume needs a turn without a stop"):
        rollout.resume()
    assert everything(rollout) == before
    stripped = begun()
    stripped.record(FOUR[:-1], stop_reason=END)
    with pytest.raises(RolloutError, match="resume needs a turn without a stop"):
        stripped.resume()


def test_a_cut_off_turn_may_be_extended_instead_and_is_closed_with_ids_that_nobody_sampled():
    rollout = begun()
    rollout.record(FOUR[:2], finish_reason="abort")
    rollout.extend(LIDS)
    assert rollout.segments[0].sampled_count == 2 and not rollout.declines


# Forced


@pytest.mark.parametrize(("model", "backend"), [("Qwen/Qwen3-8B", "prime"), ("Qwen/Qwen3-8B", "chat-template")])
def test_the_close_that_a_thinking_budget_forces_is_part_of_the_turn_and_not_trained(model, backend):
    served = on(model, backend)
    thought = served.tokenizer.encode("<think>\nFour or five", add_special_tokens=False)
    close = served.tokenizer.encode("\n</think>\n\n", add_special_tokens=False)
    answer = [*served.tokenizer.encode("Four.", add_special_tokens=False), served.tokenizer.eos_token_id]
    rollout = begun(served.renderer)
    ids = thought + close + answer
    forced = [False] * len(thought) + [True] * len(close) + [False] * len(answer)
    parsed = rollout.record(ids, [-0.5] * len(ids), finish_reason="stop", forced=forced)
    assert (parsed.reasoning_content.strip(), parsed.content.strip()) == ("Four or five", "Four.")
    prompt = rollout.prompt_ids
    segment = rollout.segments[0]
    assert segment.token_ids == prompt + ids
    wanted = [not skip for skip in forced]
    assert segment.sampled_mask[len(prompt) :] == wanted and segment.sampled_count == len(thought) + len(answer)
    assert [value is None for value in segment.logprobs[len(prompt) :]] == forced
    assert to_arrays([rollout], pad_id=0).loss_mask[0, len(prompt) :].astype(bool).tolist() == wanted
    (row,) = to_rows([rollout])
    assert [bool(kept) for kept in row["completion_mask"][len(prompt) :]] == wanted
    assert rollout.html().count("forced by the engine") == len(close)
    unknown = begun(served.renderer)
    unknown.record(ids, forced=forced)
    assert to_arrays([unknown], pad_id=0).loss_mask[0, len(prompt) :].astype(bool).tolist() == wanted


def test_a_turn_that_ends_with_forced_ids_is_exported_up_to_the_last_sampled_one():
    rollout = begun()
    rollout.record(FOUR, [-0.5] * 5, forced=[False, False, False, True, True])
    size = len(rollout.prompt_ids) + 3
    batch = to_arrays([rollout], pad_id=0)
    assert batch.input_ids.shape == (1, size) and int(batch.loss_mask.sum()) == 3 and batch.spans == [[(size - 3, size)]]


@pytest.mark.parametrize("wrong", [[True], "11111", [2, 0, 0, 0, 0], [None] * 5])
def test_a_mask_that_is_no_mask_changes_nothing(wrong):
    rollout = begun()
    before = everything(rollout)
    with pytest.raises(RolloutError, match="forced"):
        rollout.record(FOUR, forced=wrong)
    with pytest.raises(RolloutError, match="version"):
        rollout.record(FOUR, version="default")
    assert everything(rollout) == before


# Begun


@pytest.mark.parametrize(("model", "backend"), MODELS)
def test_a_begun_answer_is_gone_on_with_and_not_trained(model, backend):
    served = on(model, backend)
    messages = [*OPENING, {"role": "assistant", "content": "The answer is"}]
    rollout = Rollout(served.renderer)
    prompt = rollout.begin(messages, continue_final_message=True)
    finished = served.renderer.render_ids(messages)
    assert finished[: len(prompt)] == prompt
    assert served.tokenizer.decode(prompt).endswith("The answer is")
    if backend == "chat-template":  # transformers' own meaning of it
        text = served.tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
        assert served.tokenizer.encode(text, add_special_tokens=False) == prompt
    stop = served.renderer.get_stop_token_ids()[-1]
    ids = [*served.tokenizer.encode(" four.", add_special_tokens=False), stop]
    parsed = rollout.record(ids, [-0.5] * len(ids))
    assert parsed.content.strip() == "The answer is four."
    assert [message["role"] for message in rollout.messages] == ["user", "assistant"]
    segment = rollout.segments[0]
    assert segment.token_ids == prompt + ids and segment.sampled_mask == [False] * len(prompt) + [True] * len(ids)
    whole = begun(served.renderer)  # bridged as a turn whose every id was sampled
    start = segment.turn_start
    if whole.prompt_ids == prompt[:start]:
        whole.record([*prompt[start:], *ids])
        assert rollout.extend(LIDS) == whole.extend(LIDS)


REFUSED = {
    "a conversation without one": (OPENING, "final assistant message of text"),
    "an empty one": ([*OPENING, {"role": "assistant", "content": " "}], "final assistant message of text"),
    "a call": (
        [*OPENING, {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
        "without tool calls",
    ),
    "nothing before it": ([{"role": "assistant", "content": "The"}], "needs a message before it"),
    "a text that spells a call": (
        [*OPENING, {"role": "assistant", "content": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'}],
        "reads the begun answer",
    ),
}


def test_without_a_decoder_a_begun_answer_is_refused():
    rollout = Rollout(wrap(ToyRenderer()))
    with pytest.raises(RolloutError, match="can't decode"):
        rollout.begin([*OPENING, {"role": "assistant", "content": "The answer is"}], continue_final_message=True)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("backend", ["prime", "chat-template"])
def test_what_cannot_be_gone_on_with_is_refused(name, backend):
    messages, why = REFUSED[name]
    rollout = Rollout(on("Qwen/Qwen3-8B", backend).renderer)
    with pytest.raises(RendererError, match=why):
        rollout.begin(messages, continue_final_message=True)
    assert rollout.segments == []


def test_a_begun_answer_is_never_followed_by_a_second_assistant_turn():
    rollout = Rollout(wrap(ToyRenderer()))
    with pytest.raises(RolloutError, match="continue_final_message=True"):
        rollout.begin([*OPENING, {"role": "assistant", "content": "The answer is"}])
    assert rollout.segments == []


def test_a_turn_that_goes_on_with_a_begun_answer_may_be_aborted_and_resumed():
    class Decoding(toy.ToyTokenizer):
        def decode(self, ids, skip_special_tokens=False):
            names = {index: name for name, index in self.get_added_vocab().items()}
            return "".join(names.get(token) or toy.decode([token]) for token in ids)

    rollout = Rollout(wrap(ToyRenderer(), Decoding()))
    prompt = rollout.begin([*OPENING, {"role": "assistant", "content": "It is "}], continue_final_message=True)
    rollout.record(FOUR[:2], version=1, finish_reason="abort")
    assert rollout.resume() == prompt + FOUR[:2]
    parsed = rollout.record(FOUR[2:], version=2)
    assert parsed.content == "It is four" and parsed.termination is Termination.STOP
    (turn,) = rollout.segments[0].turns
    assert (turn.start, turn.versions) == (len(prompt), (1, 1, 2, 2, 2)) and rollout.turns == 1
    after = rollout.extend(LIDS)
    assert after[: len(prompt) + 5] == prompt + FOUR and not rollout.declines
