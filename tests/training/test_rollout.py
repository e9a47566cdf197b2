"""A rollout's segments are what a trainer needs: each sampled id once with its mask set, every new segment with its reason."""

from __future__ import annotations

import copy
import pickle

import pytest
import toy
from hypothesis import given, settings
from hypothesis import strategies as st
from rllm_renderer_training import Rollout, RolloutError
from toy import END, NEWLINE, THINK, ToyRenderer, encode

from rllm_renderer_core import MessageError, RendererError, RenderError, Termination, ToolError
from rllm_renderer_core.testing import wrap

OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "How many?"}]
TOOLS = [{"name": "look", "parameters": {"type": "object"}}]
FOUR = [*encode("four"), END]
LIDS = [{"role": "user", "content": "And lids?"}]
CALL = [
    *ToyRenderer().body(
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}
    ),
    END,
]


@pytest.fixture
def rollout():
    return Rollout(wrap(ToyRenderer()))


def sampled_ids(rollout):
    """The sampled ids of all segments, with the check that the lists of a segment are equally long."""
    found = []
    for segment in rollout.segments:
        assert len(segment.token_ids) == len(segment.sampled_mask) == len(segment.logprobs)
        found.append([token for token, sampled in zip(segment.token_ids, segment.sampled_mask, strict=True) if sampled])
    return found


# Bridging


def test_begin_returns_the_rendered_prompt(rollout):
    prompt = rollout.begin(OPENING, tools=TOOLS)
    assert prompt == wrap(ToyRenderer()).render_ids(OPENING, tools=TOOLS, add_generation_prompt=True) == rollout.prompt_ids


def test_a_turn_extends_the_ids_of_the_last_one(rollout):
    prompt = rollout.begin(OPENING)
    parsed = rollout.record(FOUR)
    after = rollout.extend(LIDS)
    assert parsed.content == "four" and parsed.termination is Termination.STOP
    assert after[: len(prompt + FOUR)] == prompt + FOUR
    assert len(rollout.segments) == 1 and rollout.segments[0].token_ids == after
    assert sampled_ids(rollout) == [FOUR]
    assert rollout.declines == []


def test_four_turns_with_tools_are_one_segment(rollout):
    rollout.begin(OPENING, tools=TOOLS)
    for completion in (CALL, [*encode("ok"), END], CALL):
        rollout.record(completion)
        last = rollout.messages[-1]
        calls = last.get("tool_calls", ())
        rollout.extend([{"role": "tool", "tool_call_id": call["id"], "content": "5"} for call in calls] or LIDS)
    rollout.record(FOUR)
    assert len(rollout.segments) == 1
    assert sampled_ids(rollout) == [[*CALL, *encode("ok"), END, *CALL, *FOUR]]
    assert [message["role"] for message in rollout.messages] == [
        "system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert rollout.turns == 4


def test_nothing_is_encoded_again(rollout):
    rollout.begin(OPENING)
    odd = [toy.FIRST + 0x10FFFF, *encode("a"), 3_000_000, END]  # an id that decodes to nothing
    rollout.record(odd)
    rollout.extend(LIDS)
    assert sampled_ids(rollout) == [odd]


def test_results_are_paired_by_the_message_that_was_parsed():
    seen = []

    class Watching(ToyRenderer):
        def bridge_to_next_turn(self, prompt, completion, new, *, tools=None, previous_message=None):
            seen.append((new, previous_message))
            return super().bridge_to_next_turn(prompt, completion, new)

    rollout = Rollout(wrap(Watching()))
    rollout.begin(OPENING, tools=TOOLS)
    rollout.record(CALL)
    rollout.extend([{"role": "tool", "tool_call_id": rollout.messages[-1]["tool_calls"][0]["id"], "content": "5"}])
    ((new, previous),) = [each for each in seen if each[0][0]["content"] == "5"]  # others show that nothing is dropped
    assert new[0]["name"] == "look" and previous["tool_calls"][0]["function"]["name"] == "look"


# Declines


def test_a_decline_starts_a_segment_with_the_reason(rollout):
    rollout.begin(OPENING)
    rollout.record([*FOUR, END])
    prompt = rollout.extend(LIDS)
    assert [(each.turn, each.reason) for each in rollout.declines] == [(1, "the completion has more than one stop")]
    expected = wrap(ToyRenderer()).render_ids(
        [*OPENING, {"role": "assistant", "content": "four"}, *LIDS], add_generation_prompt=True
    )
    assert prompt == expected == rollout.segments[1].token_ids
    assert sampled_ids(rollout) == [[*FOUR, END], []]


def test_after_a_decline_bridges_go_on_in_the_new_segment(rollout):
    rollout.begin(OPENING)
    rollout.record([*FOUR, END])
    rollout.extend(LIDS)
    rollout.record(CALL)
    rollout.extend([{"role": "tool", "content": "5"}])
    assert sampled_ids(rollout) == [[*FOUR, END], CALL]
    assert len(rollout.declines) == 1


def test_a_completion_cut_inside_reasoning_starts_a_segment(rollout):
    rollout.begin(OPENING)
    parsed = rollout.record([THINK, *encode("Weighing both")])
    assert (parsed.termination, parsed.reasoning_complete, parsed.content) == (Termination.TRUNCATED, False, "")
    rollout.extend(LIDS)
    assert "inside reasoning" in rollout.declines[0].reason
    assert sampled_ids(rollout) == [[THINK, *encode("Weighing both")], []]


def test_tool_cycle_starts_a_segment_at_each_query():
    rollout = Rollout(wrap(ToyRenderer(), thinking_retention="tool_cycle"))
    rollout.begin(OPENING)
    rollout.record(CALL)
    rollout.extend([{"role": "tool", "content": "5"}])
    rollout.record(FOUR)
    rollout.extend(LIDS)
    assert len(rollout.segments) == 2 and "tool_cycle" in rollout.declines[0].reason
    assert sampled_ids(rollout) == [[*CALL, *FOUR], []]


def test_a_cut_off_completion_is_closed_unsampled(rollout):
    prompt = rollout.begin(OPENING)
    rollout.record(encode("fo"))
    after = rollout.extend(LIDS)
    assert sampled_ids(rollout) == [encode("fo")]
    assert after[len(prompt) + 2 :][:2] == [END, NEWLINE]


# Logprobs


def test_logprobs_stand_beside_their_ids(rollout):
    rollout.begin(OPENING)
    rollout.record(FOUR, [-0.1, -0.2, -0.3, -0.4, -0.5])
    rollout.extend(LIDS)
    rollout.record(FOUR)
    (segment,) = rollout.segments
    found = [each for each in zip(segment.logprobs, segment.sampled_mask, strict=True) if each[0] is not None]
    assert found == [(-0.1, True), (-0.2, True), (-0.3, True), (-0.4, True), (-0.5, True)]


def test_another_number_of_logprobs_is_an_error_and_changes_nothing(rollout):
    rollout.begin(OPENING)
    with pytest.raises(RolloutError, match="2 logprobs for 5 sampled ids"):
        rollout.record(FOUR, [-0.1, -0.2])
    rollout.record(FOUR)
    assert sampled_ids(rollout) == [FOUR]


# Misuse and failures


def test_misuse_is_said(rollout):
    with pytest.raises(RolloutError, match="call begin or extend first"):
        rollout.record(FOUR)
    with pytest.raises(RolloutError, match="call record first"):
        rollout.extend(LIDS)
    rollout.begin(OPENING)
    with pytest.raises(RolloutError, match="begin was called twice"):
        rollout.begin(OPENING)
    with pytest.raises(RolloutError, match="call record first"):
        rollout.extend(LIDS)
    rollout.record(FOUR)
    with pytest.raises(RolloutError, match="call begin or extend first"):
        rollout.record(FOUR)


def test_an_empty_opening_is_an_error(rollout):
    with pytest.raises(RolloutError, match="at least one message"):
        rollout.begin([])


@pytest.mark.parametrize(("messages", "tools", "kind"), [([{}], None, MessageError), (OPENING, [{}], ToolError)])
def test_a_begin_that_fails_can_be_made_again(rollout, messages, tools, kind):
    with pytest.raises(kind):
        rollout.begin(messages, tools=tools)
    assert rollout.begin(OPENING)
    assert len(rollout.segments) == 1


def test_an_extend_with_bad_messages_changes_nothing(rollout):
    rollout.begin(OPENING)
    rollout.record(FOUR)
    with pytest.raises(MessageError):
        rollout.extend([{}])
    rollout.extend(LIDS)
    assert len(rollout.segments) == 1


def test_a_render_that_fails_after_a_decline_changes_nothing():
    class Failing(ToyRenderer):
        def render(self, messages, **more):
            if len(messages) > 3:
                raise KeyError("upstream")
            return super().render(messages, **more)

    rollout = Rollout(wrap(Failing()))
    rollout.begin(OPENING)
    rollout.record([*FOUR, END])
    before = copy.deepcopy((rollout.messages, rollout.segments, rollout.declines, rollout.turns))
    with pytest.raises(RenderError):
        rollout.extend(LIDS)
    assert (rollout.messages, rollout.segments, rollout.declines, rollout.turns) == before


def test_an_empty_extend_opens_no_second_assistant_turn(rollout):
    rollout.begin(OPENING)
    rollout.record(FOUR)
    before = rollout.to_dict()
    with pytest.raises(RolloutError, match="no second assistant turn is opened"):
        rollout.extend([])
    assert rollout.to_dict() == before


# State


def test_it_is_picklable_at_any_point(rollout):
    rollout.begin(OPENING, tools=TOOLS)
    rollout = pickle.loads(pickle.dumps(rollout))
    rollout.record(CALL, [-0.5] * len(CALL))
    rollout = pickle.loads(pickle.dumps(rollout))
    rollout.extend([{"role": "tool", "content": "5"}])
    rollout = pickle.loads(pickle.dumps(rollout))
    assert sampled_ids(rollout) == [CALL] and rollout.tools == [{"type": "function", "function": TOOLS[0]}]


def test_what_is_returned_or_given_is_not_the_state(rollout):
    messages, completion = copy.deepcopy(OPENING), list(FOUR)
    rollout.begin(messages).append(0)
    messages.append({"role": "user", "content": "no"})
    rollout.record(completion)
    completion.append(0)
    rollout.prompt_ids.append(0)
    rollout.extend(LIDS).append(0)
    assert 0 not in rollout.segments[0].token_ids and len(rollout.messages) == 4


TURNS = st.lists(
    st.tuples(
        st.lists(
            st.one_of(
                st.sampled_from([END, END, THINK, toy.UNTHINK, toy.CALL, toy.ARGS, toy.UNCALL, NEWLINE]), st.integers(90, 400)
            )
        ),
        st.lists(st.sampled_from(["user", "tool", "system"]), min_size=1, max_size=3),
    ),
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(TURNS)
def test_each_sampled_id_is_in_one_segment_with_its_mask_set(turns):
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.begin(OPENING)
    recorded = []
    for completion, roles in turns:
        rollout.record(completion)
        recorded += completion
        try:
            rollout.extend([{"role": role, "content": "x"} for role in roles])
        except RendererError:  # a conversation that can't be rendered again: the rollout ends here
            break
    assert [token for ids in sampled_ids(rollout) for token in ids] == recorded
    assert len(rollout.segments) == len(rollout.declines) + 1
