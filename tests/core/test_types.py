"""The value types are plain data: dict and attributes agree, and they survive copies, pickling and JSON."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from rllm_renderer_core import ParsedResponse, RenderedTokens, Termination, ToolCall, ToolCallStatus
from rllm_renderer_core.normal_form.messages import normalize_messages

CALL = ToolCall("look", '{"q":"tea", "n":1}', id="c1", raw="<call>", status=ToolCallStatus.OK)
BROKEN = ToolCall("look", "{", raw="<call>{", status=ToolCallStatus.INVALID_JSON)


def test_a_call_reads_as_a_dict_and_by_attributes():
    assert CALL == {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q":"tea", "n":1}'}}
    assert CALL.get("function")["name"] == CALL.name == "look"
    assert (CALL.id, CALL.arguments, CALL.raw, CALL.status) == ("c1", {"q": "tea", "n": 1}, "<call>", ToolCallStatus.OK)


def test_arguments_from_a_mapping_are_text():
    assert ToolCall("f", {"b": "é", "a": None})["function"]["arguments"] == '{"b": "é", "a": null}'
    assert ToolCall("f")["function"]["arguments"] == "{}"


@pytest.mark.parametrize("text", ["{", "[1]", "3", "", "[" * 100_000])
def test_arguments_that_are_no_object_stay_text(text):
    assert ToolCall("f", text, status=ToolCallStatus.INVALID_JSON).arguments == text


@pytest.mark.parametrize("name", ["", None])
def test_an_empty_name_is_impossible_with_status_ok(name):
    assert ToolCall(name).status is ToolCallStatus.MISSING_NAME
    assert ToolCall(name, status=ToolCallStatus.UNCLOSED_BLOCK).status is ToolCallStatus.UNCLOSED_BLOCK


@pytest.mark.parametrize("call", [CALL, BROKEN], ids=["ok", "broken"])
@pytest.mark.parametrize(
    "trip", [copy.copy, copy.deepcopy, lambda call: pickle.loads(pickle.dumps(call))], ids=["copy", "deep", "pickle"]
)
def test_a_call_survives(call, trip):
    out = trip(call)
    assert type(out) is ToolCall and out == call
    assert (out.raw, out.status, out.id, out.name) == (call.raw, call.status, call.id, call.name)


def test_a_deep_copy_shares_nothing():
    out = copy.deepcopy(CALL)
    out["function"]["name"] = "other"
    assert CALL.name == "look"


def test_a_call_goes_through_json_and_back_into_a_message():
    back = json.loads(json.dumps({"role": "assistant", "tool_calls": [CALL]}))
    assert normalize_messages([back])[0]["tool_calls"] == [CALL]


def test_enums_are_their_text():
    assert json.dumps([Termination.STOP, ToolCallStatus.OK]) == '["stop", "ok"]'
    assert f"{Termination.TRUNCATED}" == "truncated" and Termination("malformed") is Termination.MALFORMED


def test_a_parsed_response_becomes_a_message():
    parsed = ParsedResponse("text", "why", [CALL])
    assert parsed.to_message() == {"role": "assistant", "content": "text", "reasoning_content": "why", "tool_calls": [CALL]}
    assert ParsedResponse("text").to_message() == {"role": "assistant", "content": "text"}


def test_broken_calls_go_back_as_the_text_that_the_model_wrote():
    message = ParsedResponse("text ", None, [CALL, BROKEN]).to_message()
    assert message == {"role": "assistant", "content": "text <call>{", "tool_calls": [CALL]}
    normalize_messages([message])


def test_the_message_of_a_response_shares_nothing_with_it():
    parsed = ParsedResponse("", None, [copy.deepcopy(CALL)])
    parsed.to_message()["tool_calls"][0]["function"]["name"] = "other"
    assert parsed.tool_calls[0].name == "look"


@pytest.mark.parametrize(
    "value", [ParsedResponse("a", "b", [CALL], Termination.TRUNCATED, False), RenderedTokens([1], [0], [True])]
)
def test_values_are_picklable(value):
    assert pickle.loads(pickle.dumps(value)) == value
