"""A call against its own text and what was written again: what is alike, and what is a fault."""

from __future__ import annotations

import json

import pytest

from rllm_renderer_core import ToolCall
from rllm_renderer_core.guards.parse_check.accounting import located
from rllm_renderer_core.guards.parse_check.rewriting import Rewriter, fault

OPEN, CLOSE = "<tool_call>\n<function=rm>\n", "</function>\n</tool_call>"


def parameter(key, value):
    return f"<parameter={key}>\n{value}\n</parameter>\n"


def test_a_value_that_was_cut_at_a_spelled_close_leaves_no_empty_call():
    raw = f"{OPEN}<parameter=path>\na </tool_call>"
    assert fault(ToolCall("rm", {}, raw=raw), OPEN + CLOSE)


@pytest.mark.parametrize(
    ("arguments", "raw"),
    [
        ({"path": "a", "n": 1}, OPEN + parameter("path", "a") + parameter("n", "1") + CLOSE),
        ({"path": "a", "n": 100.0}, OPEN + parameter("path", "a") + parameter("n", "1e2") + CLOSE),
        ({"path": "a", "n": True}, OPEN + parameter("path", "a") + parameter("n", "true") + CLOSE),
    ],
    ids=["as written", "another number", "another word"],
)
def test_what_is_alike(arguments, raw):
    written = OPEN + "".join(parameter(key, value) for key, value in arguments.items()) + CLOSE
    assert fault(ToolCall("rm", arguments, raw=raw), written) is None


@pytest.mark.parametrize(
    ("arguments", "raw"),
    [
        ({"path": "a"}, OPEN + parameter("path", "a") + parameter("n", "1") + CLOSE),
        ({"path": "b"}, OPEN + parameter("path", "a") + CLOSE),
        ({"path": "a"}, OPEN + parameter("path", "  a ") + CLOSE),
        ({"path": "a\n<parameter=n>\n1"}, OPEN + parameter("path", "a\n<parameter=n>\n1") + CLOSE),
        ({"path": None}, OPEN + parameter("path", "none") + CLOSE),
    ],
    ids=["one is missing", "another value", "trimmed", "swallowed the next", "a word for null"],
)
def test_what_is_a_fault(arguments, raw):
    written = OPEN + "".join(parameter(key, value) for key, value in arguments.items()) + CLOSE
    assert fault(ToolCall("rm", arguments, raw=raw), written)


@pytest.mark.parametrize(
    ("part", "name", "raw", "id"),
    [
        ("look", "look_up", '<tool_call>look_up{"q": 1}</tool_call>', ""),
        ("to_", "to_json", 'to=functions.to_json<|message|>{"q": 1}', ""),
        ("a", "a.b", 'to=functions.a.b<|message|>{"q": 1}', ""),
        ("rm", "rm:x", '<|tool_call_begin|>functions.rm:x:0{"q": 1}', "functions.rm:x:0"),
    ],
)
def test_a_part_of_a_name_is_no_name(part, name, raw, id):
    assert fault(ToolCall(name, {"q": 1}, id=id, raw=raw), "") is None
    assert fault(ToolCall(part, {"q": 1}, id=id, raw=raw), "")


def test_a_call_without_a_raw_text_is_found():
    text = 'Sure.[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]mul[ARGS]{"b": {"c": 2}}'
    found = located(text, [ToolCall("add", '{"a": 1}'), ToolCall("mul", '{"b": {"c": 2}}')])
    assert [call.raw for call in found] == ['add[ARGS]{"a": 1}', 'mul[ARGS]{"b": {"c": 2}}']
    assert located(text, [ToolCall("rm", {"q": "/"})])[0].raw == ""


def toy_render(messages):
    """Writes parameters between tags; counts how often in ``renders``."""
    toy_render.renders += 1
    called = [call["function"] for call in messages[1]["tool_calls"]]
    return "<user>ping</user>" + "\n".join(
        f"<tool_call>\n<function={each['name']}>\n"
        + "".join(parameter(k, v if isinstance(v, str) else json.dumps(v)) for k, v in json.loads(each["arguments"]).items())
        + CLOSE
        for each in called
    )


@pytest.fixture
def rewriter():
    toy_render.renders = 0
    return Rewriter(toy_render)


def sampled(*pairs):
    return OPEN + "".join(parameter(key, value) for key, value in pairs) + CLOSE


def test_the_same_call_is_judged_alike_each_time(rewriter):
    call = ToolCall("rm", {"path": "a", "n": 1}, raw=sampled(("path", "a"), ("n", 1)))
    wrong = ToolCall("rm", {"path": "a", "n": 2}, raw=sampled(("path", "a"), ("n", 1)))
    for _ in range(3):
        assert rewriter.faults([call]) == [None]
        assert rewriter.faults([wrong]) != [None]


@pytest.mark.parametrize(
    ("arguments", "raw"),
    [
        ({"path": "b", "n": 1}, sampled(("path", "a"), ("n", "1"))),
        ({"path": "a", "n": 1}, sampled(("path", "a"), ("n", "2"))),
        ({"path": "a", "n": 1}, sampled(("path", "a"), ("n", "1"), ("n", "1"))),
        ({"path": "a", "n": 1}, sampled(("path", " a"), ("n", "1"))),
        ({"path": "a", "n": 1}, sampled(("path", "a"), ("n", "1")).replace("=rm", "=mv")),
        ({"path": "a\n<parameter=i>\n1", "n": 1}, sampled(("path", "a\n<parameter=i>\n1"), ("n", "1"))),
    ],
    ids=["another text", "another number", "one twice", "trimmed", "another name", "swallowed the next"],
)
def test_what_is_a_fault_is_one_where_the_shape_is_known(rewriter, arguments, raw):
    sound = ToolCall("rm", {"path": "a", "n": 1}, raw=sampled(("path", "a"), ("n", "1")))
    assert [rewriter.faults([sound]) for _ in range(3)] == [[None]] * 3
    assert rewriter.faults([ToolCall("rm", arguments, raw=raw)])[0]
