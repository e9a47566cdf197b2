"""What engines really return: the stop stripped, or a finish reason that contradicts the ids."""

from __future__ import annotations

import pytest
import real_tokenizers
import toy
from rllm_renderer_training import Rollout, RolloutError
from toy import CALL, END, ToyRenderer, encode

from rllm_renderer_core import Termination, resolve
from rllm_renderer_core.testing import wrap

OPENING = [{"role": "user", "content": "How many?"}]
LIDS = [{"role": "user", "content": "And lids?"}]
FOUR = encode("four")


@pytest.fixture
def rollout():
    out = Rollout(wrap(ToyRenderer()))
    out.begin(OPENING)
    return out


@pytest.mark.parametrize("reason", ["stop", "tool_calls", None])
def test_a_stripped_stop_is_put_back_and_trained(rollout, reason):
    stop_id = END if reason is None else None
    parsed = rollout.record(FOUR, [-0.5] * 4, finish_reason=reason, stop_id=stop_id)
    assert parsed.termination is Termination.STOP and parsed.content == "four"
    (segment,) = rollout.segments
    assert segment.token_ids[-5:] == [*FOUR, END] and segment.sampled_mask[-5:] == [True] * 5
    assert segment.logprobs[-5:] == [-0.5] * 4 + [None]
    assert segment.restored_stops == [len(segment.token_ids) - 1] and segment.turns[0].restored_stop


def test_a_returned_stop_is_left_alone(rollout):
    rollout.record([*FOUR, END], finish_reason="stop", stop_id=END)
    assert rollout.segments[0].token_ids[-5:] == [*FOUR, END] and rollout.segments[0].restored_stops == []


def test_without_a_finish_reason_nothing_is_put_back(rollout):
    assert rollout.record(FOUR).termination is Termination.TRUNCATED


@pytest.mark.parametrize("reason", ["length", "abort"])
def test_a_cut_off_turn_has_no_stop(rollout, reason):
    with pytest.raises(RolloutError, match=f"finish_reason is '{reason}', but the stop {END} was sampled"):
        rollout.record([*FOUR, END], finish_reason=reason)
    with pytest.raises(RolloutError, match="but the stop"):
        rollout.record(FOUR, finish_reason=reason, stop_id=END)
    assert rollout.record(FOUR, finish_reason=reason).termination is Termination.TRUNCATED
    assert rollout.turns == 1


def test_what_is_not_known_is_an_error(rollout):
    with pytest.raises(RolloutError, match="finish_reason 'eos' isn't known"):
        rollout.record(FOUR, finish_reason="eos")
    with pytest.raises(RolloutError, match="stop_id 7 isn't a stop of this model"):
        rollout.record(FOUR, finish_reason="stop", stop_id=7)


class TwoStops(ToyRenderer):
    """Ends a turn with calls by another stop than a turn of text."""

    def get_stop_token_ids(self):
        return [END, toy.UNCALL]

    def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
        out = super().parse_response(token_ids)
        if token_ids[-1:] == [toy.UNCALL]:
            out.termination = Termination.STOP if CALL in token_ids else Termination.MALFORMED
        elif CALL in token_ids:
            out.termination = Termination.MALFORMED
        return out


def test_of_two_stops_the_one_that_fits_is_put_back():
    for ids, stop in ((FOUR, END), ([CALL, *encode("look"), toy.ARGS, *encode("{}")], toy.UNCALL)):
        rollout = Rollout(wrap(TwoStops()))
        rollout.begin(OPENING)
        rollout.record(ids, finish_reason="stop")
        assert rollout.segments[0].token_ids[-1] == stop


def test_where_two_stops_fit_the_engine_has_to_say():
    class Either(ToyRenderer):
        def get_stop_token_ids(self):
            return [END, toy.RESULT]

        def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
            out = super().parse_response([END if token == toy.RESULT else token for token in token_ids])
            return out

        def render_ids(self, messages, **more):
            return [token for token in super().render_ids(messages, **more) if token != END]

    rollout = Rollout(wrap(Either()))
    rollout.begin(OPENING)
    with pytest.raises(RolloutError, match=f"2 of the stops .{END}, {toy.RESULT}. would fit"):
        rollout.record(FOUR, finish_reason="stop")
    rollout.record(FOUR, finish_reason="stop", stop_id=toy.RESULT)
    assert rollout.segments[0].token_ids[-1] == toy.RESULT


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "zai-org/GLM-5.1", "openai/gpt-oss-20b"])
def test_on_real_models_the_stop_comes_back_or_is_asked_for(model):
    pytest.importorskip("rllm_renderer_prime", reason="rllm-renderer-prime isn't installed: its models' stops aren't proven")
    try:
        tokenizer = real_tokenizers.load(model)
    except Exception as error:
        pytest.skip(f"no vocabulary of {model} here, its stops aren't proven: {error}")
    renderer = resolve(model, tokenizer, backend="prime", parity="off")
    turn = {"role": "assistant", "content": "four"}
    prompt = renderer.render_ids(OPENING, add_generation_prompt=True)
    shown = renderer.render_ids([*OPENING, turn, *LIDS], add_generation_prompt=True)
    stops = renderer.get_stop_token_ids()
    text = tokenizer.encode("four", add_special_tokens=False)
    closed = []
    for stop in stops:  # the stops with which this very text is a whole turn that goes on with a user's message
        rollout = Rollout(renderer)
        rollout.begin(OPENING)
        rollout.record([*text, stop])
        rollout.extend(LIDS)
        closed += [stop] if not rollout.declines else []
    rollout = Rollout(renderer)
    rollout.begin(OPENING)
    assert rollout.prompt_ids == prompt and shown
    try:
        rollout.record(text, finish_reason="stop")
    except RolloutError as error:
        assert "pass stop_id=" in str(error) and len(stops) > 1
        return
    restored = rollout.segments[0].token_ids[-1]
    assert restored in (closed or stops)
