"""Whether a caller's messages go on from a completion, so that its sampled ids may stand for the assistant message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rllm_renderer_core.errors import MessageError
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.types import Message

from .messages import plain_messages


def follows_completion(new_messages: Sequence[Message], output: Any) -> bool:
    """Whether the first of these messages is the completion, and no other is from the assistant.

    ``False`` where the message was edited, is another one of several samples, or replaces a completion that was thrown away:
    the sampled ids would then tell the model something that the messages don't say. White space at the edges of a text doesn't
    count, since parsers strip it. Reasoning may be left out, and tool calls where a tool result follows: rLLM's ``Step`` leaves
    them out.

    Args:
        new_messages: What follows the messages that the completion answered.
        output: rLLM's ``ModelOutput`` of the completion, an ``EngineOutput``, or the assistant's message as its client was
            given it.
    """
    roles = [_role(message) for message in new_messages]
    if roles[:1] != ["assistant"] or "assistant" in roles[1:]:
        return False
    if isinstance(output, Mapping) and new_messages[0] == output:
        return True  # whatever it has, such as arguments that aren't JSON
    answer = _of_message(new_messages[0])
    given = _of_message(output) if isinstance(output, Mapping) else _of_output(output)
    if answer is None or given is None:
        return False  # no completion is parsed to it; who renders it gets the reason
    raw = getattr(output, "text", None)
    if raw and not answer.calls and not answer.reasoning and answer.content == raw.strip():
        return True  # the completion's text as it was sampled, its reasoning and calls among it
    if answer.content != given.content or (answer.reasoning and answer.reasoning != given.reasoning):
        return False
    return answer.calls == given.calls or (not answer.calls and roles[1:2] == ["tool"])


class _Answer(NamedTuple):
    """What two answers are compared by: their texts without white space at the edges, and their calls."""

    content: str
    reasoning: str
    calls: list[tuple[str, str]]


def _of_message(message: Message) -> _Answer | None:
    try:
        (plain,) = normalize_messages(plain_messages([message]))
    except MessageError:
        return None
    if plain["role"] != "assistant" or not isinstance(plain["content"], str):
        return None
    calls = [_comparable(call["function"]["name"], call["function"]["arguments"]) for call in plain.get("tool_calls", ())]
    return _Answer(plain["content"].strip(), (plain.get("reasoning_content") or "").strip(), calls)


def _of_output(output: Any) -> _Answer:
    calls = [_comparable(*_name_and_arguments(call)) for call in output.tool_calls or ()]
    return _Answer((output.content or "").strip(), (output.reasoning or "").strip(), calls)


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)


def _name_and_arguments(call: Any) -> tuple[str, Any]:
    """Of a call of an ``EngineOutput``, or of rLLM's ``ToolCall``."""
    return (call["name"], call["arguments"]) if isinstance(call, Mapping) else (call.name, call.arguments)


def _comparable(name: str, arguments: Any) -> tuple[str, str]:
    """A call in a form that compares: 1, 1.0 and true are three values, and keys have no order."""
    return name, json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments, sort_keys=True)
