"""Declarations that can't be used: one takes nothing from the others, and none makes a parse raise."""

from __future__ import annotations

import logging

import pytest
import shapes
from parse_formats import FORMATS, GLM, QWEN, TOOLS, glm, served

from rllm_renderer_core import ToolCallStatus
from rllm_renderer_core.errors import MessageError, ToolError


class Raises:
    """An object of a client's library that can't be read."""

    def model_dump(self):
        raise RuntimeError("half made")

    def __iter__(self):
        raise RuntimeError("half made")


UNUSABLE = {
    "a server's own tool": {"type": "web_search"},
    "an object that raises": Raises(),
    "a number": 5,
    "no name": {"type": "function", "function": {"description": "d"}},
    "a schema that is text": {"type": "function", "function": {"name": "look", "parameters": "{}"}},
}
NO_LIST = {"an iterator that raises": Raises(), "a number": 5, "text": "rm", "one declaration": TOOLS[0]}


@pytest.mark.parametrize("other", UNUSABLE)
@pytest.mark.parametrize(("backend", "model", "call"), [*FORMATS[:6]], ids=lambda each: getattr(each, "__name__", each))
def test_one_that_can_not_be_used_takes_nothing_from_the_others(backend, model, call, other):
    resolved, tokenizer = served(backend, model)
    stop = resolved.get_stop_token_ids()[:1]
    ids = [*shapes.encode(tokenizer, f"why</think>{call(('path', '42'))}"), *stop]
    for tools in ([*TOOLS, UNUSABLE[other]], [UNUSABLE[other], *TOOLS]):
        (found,) = resolved.parse_response(ids, tools=tools).tool_calls
        assert (found.status, found.arguments) == (ToolCallStatus.OK, {"path": "42"})
    look = [*shapes.encode(tokenizer, f"why</think>{call(('path', '42')).replace('rm', 'fly')}"), *stop]
    (found,) = resolved.parse_response(look, tools=[*TOOLS, UNUSABLE[other]]).tool_calls
    assert found.status is ToolCallStatus.UNKNOWN_TOOL


def test_what_is_left_out_is_logged_once(caplog):
    resolved, tokenizer = served("chat-template", QWEN)
    with caplog.at_level(logging.WARNING, "rllm_renderer"):
        for _ in range(3):
            resolved.parse_response(shapes.encode(tokenizer, "four"), tools=[*TOOLS, {"type": "memory"}])
    assert [each.message.count("tool 1 is of type 'memory'") for each in caplog.records] == [1]


@pytest.mark.parametrize("tools", NO_LIST)
def test_a_parse_with_what_is_no_list_of_declarations_does_not_raise(tools):
    resolved, tokenizer = served("chat-template", GLM)
    ids = [*shapes.encode(tokenizer, f"why</think>{glm(('path', '/tmp'))}"), *resolved.get_stop_token_ids()[:1]]
    assert [call.name for call in resolved.parse_response(ids, tools=NO_LIST[tools]).runnable] == ["rm"]


def test_a_render_says_which_one_can_not_be_read():
    resolved, _ = served("chat-template", QWEN)
    question = [shapes.user("x")]
    with pytest.raises(ToolError, match="tool 1 can't be read: RuntimeError: half made") as caught:
        resolved.render_ids(question, tools=[*TOOLS, Raises()])
    assert caught.value.index == 1 and isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ToolError, match="tools can't be read"):
        resolved.render_ids(question, tools=Raises())
    with pytest.raises(MessageError, match="message 1 can't be read"):
        resolved.render_ids([*question, Raises()])
    with pytest.raises(MessageError, match="messages can't be read"):
        resolved.render_ids(Raises())
