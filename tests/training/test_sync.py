"""Whole conversations from a client: bridged where they continue what was recorded, a new segment with the reason where not."""

from __future__ import annotations

import copy
import json

import pytest
from rllm_renderer_training import Rollout, RolloutError
from toy import ARGS, CALL, END, THINK, UNCALL, UNTHINK, ToyRenderer, encode

from rllm_renderer_core import MessageError
from rllm_renderer_core.testing import wrap

OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "How many?"}]
TOOLS = [{"name": "look", "parameters": {"type": "object"}}]
ARGUMENTS = '{"q":  1, "r": "x"}'
SAID = [THINK, *encode("hm"), UNTHINK, *encode(" Looking \n"), CALL, *encode("look"), ARGS, *encode(ARGUMENTS), UNCALL, END]


@pytest.fixture
def rollout():
    out = Rollout(wrap(ToyRenderer()))
    out.sync(OPENING, TOOLS)
    out.record(SAID)
    return out


def conversation(rollout, **changed):
    """What a client sends next; ``changed`` are fields of the assistant's message."""
    said = copy.deepcopy(rollout.messages[-1])
    said.update(changed)
    said = {key: value for key, value in said.items() if value != "dropped"}
    call_id = said["tool_calls"][0]["id"] if said.get("tool_calls") else None
    return [*OPENING, said, {"role": "tool", "tool_call_id": call_id, "content": "5"}]


def with_call(rollout, **fields):
    call = copy.deepcopy(rollout.messages[-1]["tool_calls"][0])
    call["function"].update({key: value for key, value in fields.items() if key != "id"})
    return [{**call, **{key: value for key, value in fields.items() if key == "id"}}]


def test_the_first_conversation_begins_the_rollout():
    rollout = Rollout(wrap(ToyRenderer()))
    assert rollout.sync(OPENING, TOOLS) == wrap(ToyRenderer()).render_ids(OPENING, tools=TOOLS, add_generation_prompt=True)


AS_WRITTEN = {
    "as recorded": lambda r: {},
    "reasoning dropped": lambda r: {"reasoning_content": "dropped"},
    "content trimmed": lambda r: {"content": "Looking"},
    "arguments in other spacing": lambda r: {"tool_calls": with_call(r, arguments='{"q":1,"r":"x"}')},
    "arguments as a mapping": lambda r: {"tool_calls": with_call(r, arguments=json.loads(ARGUMENTS))},
    "other ids": lambda r: {"tool_calls": with_call(r, id="chatcmpl-1")},
    "parts": lambda r: {"content": [{"type": "text", "text": " Looking \n"}]},
    "further keys": lambda r: {"refusal": None, "annotations": []},
}


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_however_the_client_wrote_it_back_it_is_bridged(rollout, name):
    prompt = rollout.prompt_ids
    sent = conversation(rollout, **AS_WRITTEN[name](rollout))
    expected = rollout.fork().extend(
        [{"role": "tool", "tool_call_id": rollout.messages[-1]["tool_calls"][0]["id"], "content": "5"}]
    )
    after = rollout.sync(sent)
    assert rollout.declines == [] and after == expected and after[: len(prompt) + len(SAID)] == prompt + SAID
    rollout.record([*encode("Five."), END])
    said = {"role": "assistant", "content": "Five."}
    assert rollout.sync([*sent, said, {"role": "user", "content": "And lids?"}], TOOLS)
    assert rollout.declines == [] and len(rollout.segments) == 1


def test_none_as_content_is_no_content(rollout):
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.sync(OPENING)
    rollout.record([CALL, *encode("look"), ARGS, *encode("{}"), UNCALL, END])
    rollout.sync(conversation(rollout, content=None))
    assert rollout.declines == []


@pytest.mark.parametrize("shown", ["all calls", "the OK ones, the rest as text", "the OK ones alone"])
def test_a_broken_call_is_known_however_the_server_showed_it(shown):
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.sync(OPENING)
    broken = [CALL, *encode("look"), ARGS, *encode("{"), UNCALL]
    parsed = rollout.record([*encode("So: "), CALL, *encode("look"), ARGS, *encode("{}"), UNCALL, *broken, END])
    message = parsed.to_message()
    if shown == "the OK ones alone":
        message["content"] = parsed.content
    result = {"role": "tool", "tool_call_id": parsed.tool_calls[0].id, "content": "5"}
    if shown == "all calls":
        calls = [{**dict(each), "function": {"name": each.name, "arguments": "{}"}} for each in parsed.tool_calls]
        message = {"role": "assistant", "content": parsed.content, "tool_calls": calls}
        rollout.sync([*OPENING, message, result])
        assert "differs in its tool calls" in rollout.declines[0].reason  # it claims other arguments than were sampled
        return
    rollout.sync([*OPENING, message, result])
    assert rollout.declines == []


DIFFERENT = {
    "an edited system prompt": (lambda sent: sent[0].update(content="t"), "message 0 (system) differs in its content: 's' was"),
    "another role": (lambda sent: sent[1].update(role="developer"), "message 1 (user) differs in its role, developer"),
    "an edited answer": (lambda sent: sent[2].update(content="Not looking"), "message 2 (assistant) differs in its content"),
    "another argument": (
        lambda sent: sent[2]["tool_calls"][0]["function"].update(arguments='{"q": 2, "r": "x"}'),
        "message 2 (assistant) differs in its tool calls",
    ),
    "another type of argument": (
        lambda sent: sent[2]["tool_calls"][0]["function"].update(arguments='{"q": "1", "r": "x"}'),
        "message 2 (assistant) differs in its tool calls",
    ),
    "calls dropped": (
        lambda sent: (sent[2].pop("tool_calls"), sent[3].update(role="user")),
        "message 2 (assistant) differs in its tool calls",
    ),
    "other reasoning": (lambda sent: sent[2].update(reasoning_content="no"), "differs in its reasoning: 'hm' was recorded"),
    "compacted": (lambda sent: sent.__delitem__(slice(1, 4)), "message 1 (user) is missing: 1 messages of 3 came"),
    "a foreign turn": (
        lambda sent: sent.extend([{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]),
        "message 4 (assistant) wasn't sampled here",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_conversation_is_a_new_segment_with_the_first_difference(rollout, name):
    change, reason = DIFFERENT[name]
    sent = copy.deepcopy(conversation(rollout))
    change(sent)
    expected = rollout.renderer.render_ids(sent, tools=TOOLS, add_generation_prompt=True)
    assert rollout.sync(sent) == expected
    (decline,) = rollout.declines
    assert reason in decline.reason and not decline.on_purpose and decline.turn == 1
    assert [segment.sampled_count for segment in rollout.segments] == [len(SAID), 0]
    rollout.record([*encode("Five."), END])
    assert [segment.sampled_count for segment in rollout.segments] == [len(SAID), 6]


def test_a_conversation_that_ends_with_the_recorded_turn_opens_no_second_one(rollout):
    before = rollout.to_dict()
    with pytest.raises(RolloutError, match="no second assistant turn is opened"):
        rollout.sync(conversation(rollout)[:-1])
    assert rollout.to_dict() == before


def test_other_tools_are_a_new_segment(rollout):
    rollout.sync(conversation(rollout), [*TOOLS, {"name": "count"}])
    assert rollout.declines[0].reason == "the declared tools changed" and len(rollout.tools) == 2


def test_the_same_request_again_is_the_same_prompt(rollout):
    sent = conversation(rollout)
    prompt = rollout.sync(sent)
    assert rollout.sync(sent) == prompt == rollout.prompt_ids
    assert len(rollout.segments) == 1 and not rollout.declines


def test_a_prompt_that_grows_before_anything_was_sampled_is_rendered_again():
    rollout = Rollout(wrap(ToyRenderer()))
    rollout.sync(OPENING)
    longer = [*OPENING, {"role": "user", "content": "Quick."}]
    assert rollout.sync(longer) == rollout.renderer.render_ids(longer, add_generation_prompt=True)
    assert "before anything was sampled" in rollout.declines[0].reason


def test_a_failed_sync_changes_nothing(rollout):
    before = rollout.to_dict()
    with pytest.raises(MessageError):
        rollout.sync([*OPENING, {}])
    assert rollout.to_dict() == before


def test_a_rewrite_is_a_new_segment_on_purpose(rollout):
    summary = [OPENING[0], {"role": "user", "content": "So far: looked once."}]
    prompt = rollout.rewrite(summary, reason="compacted at 8,000 ids")
    assert prompt == rollout.renderer.render_ids(summary, tools=TOOLS, add_generation_prompt=True)
    assert [(each.turn, each.reason, each.on_purpose) for each in rollout.declines] == [(1, "compacted at 8,000 ids", True)]
    rollout.record([*encode("On."), END])
    rollout.sync([*summary, {"role": "assistant", "content": "On."}, {"role": "user", "content": "?"}])
    assert [segment.sampled_count for segment in rollout.segments] == [len(SAID), 4] and len(rollout.declines) == 1
    assert [message["role"] for message in rollout.segments[0].messages] == ["system", "user", "assistant"]


def test_a_rewrite_may_keep_old_turns_and_trains_none_of_them_twice(rollout):
    rollout.rewrite([*rollout.messages, {"role": "tool", "content": "5"}])
    assert [segment.sampled_count for segment in rollout.segments] == [len(SAID), 0]


def test_rewrite_needs_a_conversation(rollout):
    with pytest.raises(RolloutError, match="call begin first"):
        Rollout(rollout.renderer).rewrite(OPENING)
    with pytest.raises(RolloutError, match="at least one message"):
        rollout.rewrite([])


def test_an_agent_and_its_sub_agent_that_alternate_are_two_segments():
    rollout = Rollout(wrap(ToyRenderer()))
    agents = {
        "main": ([{"role": "user", "content": "Plan a trip."}], TOOLS),
        "sub": ([{"role": "system", "content": "Search."}, {"role": "user", "content": "Oslo?"}], [{"name": "search"}]),
    }
    prompts = {}
    for number, name in enumerate(("main", "sub", "main", "sub", "main")):
        messages, tools = agents[name]
        prompt = rollout.sync(messages, tools)
        assert prompt[: len(prompts.get(name, []))] == prompts.get(name, [])
        said = encode(f"{name} {number}")
        rollout.record([*said, END])
        prompts[name] = [*prompt, *said, END]
        messages += [
            {"role": "assistant", "content": f"{name} {number}"},
            {"role": "user", "content": f"and then, {name}?"},
        ]
    assert [segment.token_ids for segment in rollout.segments] == [prompts["main"], prompts["sub"]]
    assert [len(segment.turns) for segment in rollout.segments] == [3, 2]
    assert len(rollout.declines) == 1 and rollout.turns == 5
    assert [segment.tools[0]["function"]["name"] for segment in rollout.segments] == ["look", "search"]


def test_of_two_segments_the_one_with_the_longer_common_conversation_goes_on(rollout):
    sent = conversation(rollout)
    rollout.sync(sent)
    rollout.rewrite(OPENING)  # a branch from the start
    rollout.record([*encode("No."), END])
    rollout.sync(sent)
    assert rollout.current == 0 and len(rollout.segments) == 2
    rollout.sync([*OPENING, {"role": "assistant", "content": "No."}, {"role": "user", "content": "Why?"}])
    assert rollout.current == 1 and len(rollout.segments) == 2
