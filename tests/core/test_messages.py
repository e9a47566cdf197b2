"""Messages and tools have one normal form; what can't be used is said with its index; nothing given is ever changed."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import pytest

from rllm_renderer_core import MessageError, ToolCall, ToolCallStatus, ToolError, ToolSpec, UnsupportedContentError
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools


def one(**message):
    (out,) = normalize_messages([message])
    return out


def call_of(call):
    return one(role="assistant", tool_calls=[call])["tool_calls"][0]


# Row 27: blank content


@pytest.mark.parametrize(
    "blank", [{}, {"content": None}, {"content": ""}, {"content": []}], ids=["absent", "None", "text", "parts"]
)
def test_blank_content_is_empty_text(blank):
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    out = one(role="assistant", tool_calls=[call], **blank)
    assert out == {"role": "assistant", "content": "", "tool_calls": [call]}


# Row 28: parts


def test_text_parts_are_joined_with_nothing_between():
    parts = [{"type": "text", "text": "a "}, "b", {"type": "text", "text": "\nc"}]
    assert one(role="user", content=parts)["content"] == "a b\nc"


def test_parts_may_be_any_iterable():
    assert one(role="user", content=({"type": "text", "text": text} for text in "ab"))["content"] == "ab"


def test_media_keeps_its_parts_in_order():
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:,x"}}, "this"]
    assert one(role="user", content=parts)["content"] == [parts[0], parts[1], {"type": "text", "text": "this"}]


@pytest.mark.parametrize(
    "part", [{"type": "hologram"}, {"text": "no type"}, {"type": "text"}, {"type": "text", "text": 3}, 7, None]
)
def test_an_unknown_part_is_a_typed_error_with_the_index(part):
    with pytest.raises(UnsupportedContentError, match=r"message 1 \(user\)") as caught:
        normalize_messages([{"role": "system", "content": "s"}, {"role": "user", "content": ["a", part]}])
    assert caught.value.index == 1


@pytest.mark.parametrize("content", [3, b"bytes", {"type": "text", "text": "a"}, True])
def test_content_of_another_type_is_an_error(content):
    with pytest.raises(MessageError, match=r"message 0 .*content must be text or a list of parts"):
        one(role="user", content=content)


# Reasoning


def test_reasoning_goes_by_both_names():
    assert one(role="assistant", content="a", reasoning="why")["reasoning_content"] == "why"
    assert one(role="assistant", content="a", reasoning_content="why", reasoning="other")["reasoning_content"] == "why"
    assert one(role="assistant", content="a", reasoning_content="", reasoning="why")["reasoning_content"] == "why"


def test_empty_reasoning_stays():
    assert one(role="assistant", content="a", reasoning_content="")["reasoning_content"] == ""
    assert "reasoning_content" not in one(role="assistant", content="a", reasoning_content=None)


def test_thinking_parts_are_reasoning():
    parts = [{"type": "thinking", "thinking": "why "}, {"type": "thinking", "thinking": "not"}, {"type": "text", "text": "ok"}]
    assert one(role="assistant", content=parts) == {"role": "assistant", "content": "ok", "reasoning_content": "why not"}


def test_reasoning_twice_is_an_error():
    with pytest.raises(MessageError, match="both reasoning_content and thinking parts"):
        one(role="assistant", content=[{"type": "thinking", "thinking": "a"}], reasoning_content="b")


def test_thinking_of_a_user_is_an_error():
    with pytest.raises(UnsupportedContentError):
        one(role="user", content=[{"type": "thinking", "thinking": "a"}])


def test_reasoning_must_be_text():
    with pytest.raises(MessageError, match="reasoning_content must be text"):
        one(role="assistant", content="", reasoning_content=["a"])


# Calls

TEXT = '{"b":1,  "a":[true,null]}'
NESTED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": TEXT}}
FORMS = {
    "nested": NESTED,
    "without type": {"id": "c1", "function": {"name": "look", "arguments": TEXT}},
    "flat": {"id": "c1", "name": "look", "arguments": TEXT},
    "object": SimpleNamespace(id="c1", type="function", function=SimpleNamespace(name="look", arguments=TEXT)),
    "flat object": SimpleNamespace(id="c1", name="look", arguments=TEXT),
    "dict with an object": {"id": "c1", "function": SimpleNamespace(name="look", arguments=TEXT)},
    "dumping object": SimpleNamespace(model_dump=lambda: NESTED),
    "ToolCall": ToolCall("look", TEXT, id="c1"),
}


@pytest.mark.parametrize("form", FORMS)
def test_calls_of_every_form_are_one(form):
    assert call_of(FORMS[form]) == NESTED


def test_argument_text_stays_byte_for_byte():
    assert call_of(NESTED)["function"]["arguments"] == TEXT


def test_a_mapping_becomes_json_with_its_keys_in_order():
    call = {"name": "look", "arguments": {"b": 1, "a": [True, None], "é": "日本"}}
    assert call_of(call)["function"]["arguments"] == '{"b": 1, "a": [true, null], "é": "日本"}'


@pytest.mark.parametrize("arguments", [None, ""])
def test_no_arguments_are_an_empty_object(arguments):
    assert call_of({"name": "look", "arguments": arguments})["function"]["arguments"] == "{}"


def test_a_call_without_id_has_none():
    assert "id" not in call_of({"name": "look", "arguments": "{}"})


@pytest.mark.parametrize("text", ['{"q": tea}', "{", "tea", '{"q": "a"} x', "[" * 100_000])
def test_broken_argument_text_raises_with_the_index(text):
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [NESTED, {"name": "f", "arguments": text}]},
    ]
    with pytest.raises(MessageError, match=r"message 1, tool call 1 \(f\): arguments aren't JSON") as caught:
        normalize_messages(messages)
    assert caught.value.index == 1


@pytest.mark.parametrize("text", ["[1]", "3", "null", '"x"'])
def test_arguments_that_are_no_object_raise(text):
    with pytest.raises(MessageError, match="arguments must be a JSON object"):
        call_of({"name": "f", "arguments": text})


@pytest.mark.parametrize("arguments", [3, ["a"], {"a": object()}, {"a": {1, 2}}])
def test_arguments_that_are_no_json_raise(arguments):
    with pytest.raises(MessageError, match=r"message 0, tool call 0 \(f\): arguments"):
        call_of({"name": "f", "arguments": arguments})


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"name": ""},
        {"name": None},
        {"function": {}},
        {"function": {"name": ""}},
        {"function": "look"},
        {"function": 3},
        None,
        "look",
    ],
)
def test_a_call_without_a_name_raises(call):
    with pytest.raises(MessageError, match="message 0, tool call 0 has no function name") as caught:
        call_of(call)
    assert caught.value.index == 0


@pytest.mark.parametrize("calls", ["look", {"name": "look"}, 3])
def test_calls_that_are_no_list_raise(calls):
    with pytest.raises(MessageError, match="tool_calls must be a list"):
        one(role="assistant", tool_calls=calls)


def test_only_an_assistant_calls():
    with pytest.raises(MessageError, match="only an assistant message may"):
        one(role="user", content="", tool_calls=[NESTED])


@pytest.mark.parametrize("calls", [None, []])
def test_no_calls_are_no_key(calls):
    assert one(role="assistant", content="a", tool_calls=calls) == {"role": "assistant", "content": "a"}


# Messages


@pytest.mark.parametrize("message", [{}, {"content": "x"}, {"role": ""}, {"role": None}, {"role": 3}])
def test_a_message_without_role_raises_with_the_index(message):
    with pytest.raises(MessageError, match="message 2 has no role") as caught:
        normalize_messages([{"role": "user"}, {"role": "user"}, message])
    assert caught.value.index == 2


@pytest.mark.parametrize("message", ["hi", None, 3, ["user", "hi"], SimpleNamespace(role="user")])
def test_a_message_that_is_no_mapping_raises(message):
    with pytest.raises(MessageError, match="message 0 must be a mapping"):
        normalize_messages([message])


@pytest.mark.parametrize("messages", ["hi", b"hi", {"role": "user"}, None, 3])
def test_messages_that_are_no_list_raise(messages):
    with pytest.raises(MessageError, match="messages must be a list of messages"):
        normalize_messages(messages)


def test_objects_that_dump_themselves_are_messages():
    message = SimpleNamespace(
        model_dump=lambda: {"role": "assistant", "content": None, "refusal": None, "tool_calls": [NESTED]}
    )
    assert normalize_messages([message]) == [{"role": "assistant", "content": "", "tool_calls": [NESTED]}]


def test_unknown_keys_stay_and_none_goes():
    message = {"role": "tool", "content": "5", "tool_call_id": "c1", "name": None, "custom": 1}
    assert one(**message) == {"role": "tool", "content": "5", "tool_call_id": "c1", "custom": 1}


def test_normal_form_is_a_fixed_point():
    messages = normalize_messages([{"role": "assistant", "content": ["a"], "reasoning": "r", "tool_calls": [FORMS["flat"]]}])
    assert normalize_messages(messages) == messages


def test_the_input_is_never_changed():
    messages = [{"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [copy.deepcopy(NESTED)]}]
    before = copy.deepcopy(messages)
    out = normalize_messages(messages)
    out[0]["content"] += "!"
    out[0]["tool_calls"][0]["function"]["name"] = "other"
    assert messages == before


# Tools

BARE = {"name": "look", "description": "d", "parameters": {"type": "object", "properties": {}}, "strict": True, "x": None}
WRAPPED = {"type": "function", "function": BARE}


def test_tools_of_every_form_are_one():
    assert normalize_tools([WRAPPED]) == normalize_tools([BARE]) == [WRAPPED]
    spec = ToolSpec("look", "d", {"type": "object"})
    assert normalize_tools([spec]) == [
        {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}
    ]
    assert normalize_tools([SimpleNamespace(model_dump=lambda: WRAPPED)]) == [WRAPPED]


def test_no_key_of_a_tool_is_dropped_added_or_moved():
    tool = {"type": "function", "function": {"parameters": {}, "zeta": 1, "name": "f"}, "cache": True}
    assert json.dumps(normalize_tools([tool])) == json.dumps([tool])
    bare = {"parameters": {}, "zeta": 1, "name": "f"}
    assert json.dumps(normalize_tools([bare])) == json.dumps([{"type": "function", "function": bare}])


def test_a_flat_tool_with_type_is_wrapped():
    assert normalize_tools([{"type": "function", **BARE}]) == [WRAPPED]


def test_properties_that_a_columnar_file_adds_as_nulls_go_and_other_nulls_stay():
    text = {
        "type": ["string", "null"],
        "default": None,
        "enum": [None, "x"],
        "const": None,
        "examples": [{"properties": {"a": None}}],
    }
    deep = {"type": "object", "properties": {"q": text, "n": None}, "description": None}
    schema = {
        "type": "object",
        "properties": {"gone": None, "properties": deep, "enum": {"properties": {"a": None}}, "list": {"items": deep}},
        "$defs": {"one": {"anyOf": [deep, {"type": "null"}, True]}, "two": None},
        "additionalProperties": {"not": deep},
        "default": {"properties": {"a": None}},
        "x": None,
    }
    less = {"type": "object", "properties": {"q": text}, "description": None}
    wanted = {
        "type": "object",
        "properties": {"properties": less, "enum": {"properties": {}}, "list": {"items": less}},
        "$defs": {"one": {"anyOf": [less, {"type": "null"}, True]}},
        "additionalProperties": {"not": less},
        "default": {"properties": {"a": None}},
        "x": None,
    }
    given = {"name": "look", "parameters": schema}
    before = copy.deepcopy(given)
    for tool in (given, {"type": "function", "function": given}, {"type": "function", **given}, ToolSpec("look", None, schema)):
        (out,) = normalize_tools([tool])
        assert json.dumps(out["function"]["parameters"]) == json.dumps(wanted)
    assert given == before
    (same,) = normalize_tools([{"name": "look", "parameters": wanted}])
    assert same["function"]["parameters"] is wanted


def test_tools_of_an_arrow_table_are_those_that_were_stored():
    arrow = pytest.importorskip("pyarrow", reason="not proved with a table of Arrow's: pyarrow isn't installed")

    def tool(name, parameter):
        schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
        return {"type": "function", "function": {"name": name, "parameters": schema}}

    tools = [tool("look", "q"), tool("count", "n")]
    (row,) = arrow.Table.from_pylist([{"tools": tools}]).to_pylist()
    assert row["tools"] != tools
    assert json.dumps(normalize_tools(row["tools"])) == json.dumps(tools)


@pytest.mark.parametrize("tools", [None, [], ()])
def test_no_tools_are_none(tools):
    assert normalize_tools(tools) is None


@pytest.mark.parametrize(
    "tool",
    [
        "look",
        3,
        None,
        {},
        {"name": ""},
        {"type": "function"},
        {"type": "function", "function": None},
        {"type": "function", "function": "look"},
        {"type": "web_search", "name": "x"},
        {"name": "f", "parameters": "none"},
        {"type": "function", "function": {"name": 3}},
    ],
)
def test_a_tool_that_cannot_be_used_raises_with_the_index(tool):
    with pytest.raises(ToolError, match="tool 1") as caught:
        normalize_tools([BARE, tool])
    assert caught.value.index == 1


@pytest.mark.parametrize("tools", ["look", {"name": "look"}, 3])
def test_tools_that_are_no_list_raise(tools):
    with pytest.raises(ToolError, match="tools must be a list"):
        normalize_tools(tools)


def test_a_toolspec_leaves_out_what_is_none():
    assert ToolSpec("f").to_dict() == {"type": "function", "function": {"name": "f"}}


# Types


def test_a_broken_call_cannot_go_back_as_a_call():
    with pytest.raises(MessageError, match="arguments aren't JSON"):
        call_of(ToolCall("look", "{", status=ToolCallStatus.INVALID_JSON))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "half \ud83d a pair"},
        {"role": "user", "content": [{"type": "text", "text": "\udc00"}]},
        {"role": "assistant", "content": "", "reasoning_content": "\ud83d"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": '{"q": "\ud83d"}'}}]},
    ],
    ids=["content", "part", "reasoning", "arguments"],
)
def test_half_a_surrogate_pair_is_a_message_error(message):
    with pytest.raises(MessageError, match=r"message 1\b.* half a surrogate pair") as caught:
        normalize_messages([{"role": "user", "content": "é 😀"}, message])
    assert caught.value.index == 1 and "surrogatepass" in caught.value.fix
