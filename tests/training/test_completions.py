"""Which stop was sampled, by what engines say: put back where the engine names its id, and never where it can't be known."""

from __future__ import annotations

import pytest
import toy
from rllm_renderer_training import Rollout, RolloutError
from supervised_backends import on
from toy import END, THINK, ToyRenderer, encode

from rllm_renderer_core import Termination, TokenIdError
from rllm_renderer_core.testing import wrap

OPENING = [{"role": "user", "content": "How many?"}]
LIDS = [{"role": "user", "content": "And lids?"}]
FOUR = encode("four")
MODELS = [
    ("Qwen/Qwen3-8B", "prime"),
    ("Qwen/Qwen3-8B", "chat-template"),
    ("Qwen/Qwen3.5-9B", "prime"),
    ("zai-org/GLM-5", "chat-template"),
    ("openai/gpt-oss-20b", "prime"),
    ("openai/gpt-oss-20b", "tinker"),
    ("meta-llama/Llama-3.2-3B-Instruct", "chat-template"),
    ("deepseek-ai/DeepSeek-V3.1", "tinker"),
    ("MiniMaxAI/MiniMax-M2.7", "prime"),
]


def begun(renderer=None):
    rollout = Rollout(renderer or wrap(ToyRenderer()))
    rollout.begin(OPENING)
    return rollout


STOPPED_AT_AN_ID = {
    "vLLM": {"finish_reason": "stop", "stop_reason": END},
    "SGLang": {"finish_reason": {"type": "stop", "matched": END}},
    "a chat server": {"finish_reason": "tool_calls", "stop_reason": END},
    "the id alone": {"stop_reason": END},
}


@pytest.mark.parametrize("engine", STOPPED_AT_AN_ID)
def test_a_stripped_stop_that_the_engine_names_is_put_back_as_sampled(engine):
    rollout = begun()
    parsed = rollout.record(FOUR, [-0.5] * 4, **STOPPED_AT_AN_ID[engine])
    assert parsed.termination is Termination.STOP and parsed.content == "four"
    (segment,) = rollout.segments
    assert segment.token_ids[-5:] == [*FOUR, END] and segment.sampled_mask[-5:] == [True] * 5
    assert segment.logprobs[-5:] == [-0.5] * 4 + [None]
    assert segment.restored_stops == [len(segment.token_ids) - 1] and segment.turns[0].restored_stop


NOT_KNOWN = {
    "a stop string of the caller, vLLM": {"finish_reason": "stop", "stop_reason": "</answer>"},
    "a stop string of the caller, SGLang": {"finish_reason": {"type": "stop", "matched": "</answer>"}},
    "nothing but that it stopped": {"finish_reason": "stop"},
    "vLLM's nothing": {"finish_reason": "stop", "stop_reason": None},
    "a chat server's calls": {"finish_reason": "tool_calls"},
    "nothing at all": {},
    "cut off": {"finish_reason": {"type": "length", "length": 4}},
}


@pytest.mark.parametrize("engine", NOT_KNOWN)
def test_a_stop_that_nobody_names_is_not_put_back(engine):
    rollout = begun()
    assert rollout.record(FOUR, [-0.5] * 4, **NOT_KNOWN[engine]).termination is Termination.TRUNCATED
    assert rollout.segments[0].token_ids[-4:] == FOUR and rollout.segments[0].restored_stops == []
    rollout.extend(LIDS)
    (segment,) = rollout.segments
    assert [token for token, mine in zip(segment.token_ids, segment.sampled_mask, strict=True) if mine] == FOUR
    assert END in segment.token_ids[segment.turns[0].end :]  # appended by the bridge, unsampled


@pytest.mark.parametrize(("model", "backend"), MODELS)
def test_where_the_callers_stop_string_ended_the_turn_no_stop_of_the_model_is_trained(model, backend):
    served = on(model, backend)
    rollout = begun(served.renderer)
    answer = served.tokenizer.encode("<answer>4</answer>", add_special_tokens=False)
    stops = set(served.renderer.get_stop_token_ids())
    for words in ({"finish_reason": "stop"}, {"finish_reason": "stop", "stop_reason": "</answer>"}):
        fork = rollout.fork()
        fork.record(answer, [-0.1] * len(answer), **words)
        fork.extend(LIDS)
        for segment in fork.segments:
            trained = {token for token, mine in zip(segment.token_ids, segment.sampled_mask, strict=True) if mine}
            assert trained.isdisjoint(stops)
        assert sum(segment.sampled_count for segment in fork.segments) == len(answer)


@pytest.mark.parametrize(("model", "backend"), MODELS)
def test_each_stop_of_the_model_comes_back_where_the_engine_names_it(model, backend):
    served = on(model, backend)
    rollout = begun(served.renderer)
    text = served.tokenizer.encode("four", add_special_tokens=False)
    for stop in served.renderer.get_stop_token_ids():
        fork = rollout.fork()
        fork.record(text, finish_reason="stop", stop_reason=stop)
        assert fork.segments[0].token_ids[fork.segments[0].turns[0].start :] == [*text, stop]
        returned = rollout.fork()
        returned.record([*text, stop], finish_reason="stop", stop_reason=stop)
        assert returned.segments[0].token_ids == fork.segments[0].token_ids
        assert (fork.segments[0].turns[0].restored_stop, returned.segments[0].turns[0].restored_stop) == (True, False)


@pytest.mark.parametrize("reason", [END, "<|end|>", None])
def test_a_returned_stop_is_left_alone(reason):
    rollout = begun()
    rollout.record([*FOUR, END], finish_reason="stop", stop_reason=reason)
    assert rollout.segments[0].token_ids[-5:] == [*FOUR, END] and rollout.segments[0].restored_stops == []


def test_a_stop_id_of_the_caller_is_sampled_like_any_other():
    returned, stripped = begun(), begun()
    returned.record([*FOUR, toy.UNCALL], finish_reason="stop", stop_reason=toy.UNCALL)
    stripped.record(FOUR, finish_reason="stop", stop_reason=toy.UNCALL)
    assert returned.segments[0].token_ids == stripped.segments[0].token_ids
    assert returned.segments[0].sampled_count == stripped.segments[0].sampled_count == 5
    assert not returned.segments[0].restored_stops and stripped.segments[0].restored_stops


@pytest.mark.parametrize("reason", ["length", "abort", {"type": "abort", "message": "weights"}])
def test_a_cut_off_turn_has_no_stop(reason):
    rollout = begun()
    kind = reason if isinstance(reason, str) else reason["type"]
    with pytest.raises(RolloutError, match=f"finish_reason is '{kind}', but the stop {END} was sampled"):
        rollout.record([*FOUR, END], finish_reason=reason)
    with pytest.raises(RolloutError, match="but the stop"):
        rollout.record(FOUR, finish_reason=reason, stop_reason=END)
    assert rollout.record(FOUR, finish_reason=reason).termination is Termination.TRUNCATED
    assert rollout.turns == 1


def test_what_contradicts_the_ids_or_is_not_known_is_an_error():
    rollout = begun()
    with pytest.raises(RolloutError, match="finish_reason 'eos' isn't known"):
        rollout.record(FOUR, finish_reason="eos")
    with pytest.raises(RolloutError, match=f"stop_reason is {THINK}, but the completion has the stop {END}"):
        rollout.record([*FOUR, END], finish_reason="stop", stop_reason=THINK)
    with pytest.raises(TokenIdError):
        rollout.record(FOUR, stop_reason=-1)
    with pytest.raises((TokenIdError, RolloutError)):
        rollout.record(FOUR, stop_reason=1.5)
    assert rollout.turns == 0
