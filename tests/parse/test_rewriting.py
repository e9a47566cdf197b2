"""A call against its own text and what was written again: what is alike, and what is a fault."""

from __future__ import annotations

import pytest

from rllm_renderer_core import ToolCall
from rllm_renderer_core.contract.rewriting import fault, located

OPEN, CLOSE = "<tool_call>\n<function=rm>\n", "</function>\n</tool_call>"


def parameter(key, value):
    return f"<parameter={key}>\n{value}\n</parameter>\n"


def test_case_21_a_value_that_was_cut_at_a_spelled_close_leaves_no_empty_call():
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
    ],
    ids=["one is missing", "another value", "trimmed", "swallowed the next"],
)
def test_what_is_a_fault(arguments, raw):
    written = OPEN + "".join(parameter(key, value) for key, value in arguments.items()) + CLOSE
    assert fault(ToolCall("rm", arguments, raw=raw), written)


def test_a_call_without_a_raw_text_is_found():
    text = 'Sure.[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]mul[ARGS]{"b": {"c": 2}}'
    found = located(text, [ToolCall("add", '{"a": 1}'), ToolCall("mul", '{"b": {"c": 2}}')])
    assert [call.raw for call in found] == ['add[ARGS]{"a": 1}', 'mul[ARGS]{"b": {"c": 2}}']
    assert located(text, [ToolCall("rm", {"q": "/"})])[0].raw == ""
