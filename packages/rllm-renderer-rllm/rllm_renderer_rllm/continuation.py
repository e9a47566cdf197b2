"""Whether a caller's messages go on from a completion, so that its sampled ids may stand for the assistant message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
        output: rLLM's ``ModelOutput`` of the completion, or an ``EngineOutput``.
    """
    roles = [_role(message) for message in new_messages]
    if roles[:1] != ["assistant"] or "assistant" in roles[1:]:
        return False
    try:
        (message,) = normalize_messages(plain_messages(new_messages[:1]))
    except MessageError:
        return False  # no completion is parsed to such a message; whoever renders it gets the reason
    content, reasoning = message["content"], message.get("reasoning_content")
    if not isinstance(content, str):
        return False
    functions = [call["function"] for call in message.get("tool_calls", ())]
    calls = [_comparable(function["name"], function["arguments"]) for function in functions]
    raw = getattr(output, "text", None)
    if raw and not calls and not reasoning and content.strip() == raw.strip():
        return True  # the completion's text as it was sampled, with its reasoning and its calls
    if content.strip() != (output.content or "").strip():
        return False
    if reasoning and reasoning.strip() != (output.reasoning or "").strip():
        return False
    has_results = roles[1:2] == ["tool"]
    sampled = [_comparable(*_name_and_arguments(call)) for call in output.tool_calls or ()]
    return (not calls and has_results) or calls == sampled


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)


def _name_and_arguments(call: Any) -> tuple[str, Any]:
    """Of a call of an ``EngineOutput``, or of rLLM's ``ToolCall``."""
    return (call["name"], call["arguments"]) if isinstance(call, Mapping) else (call.name, call.arguments)


def _comparable(name: str, arguments: Any) -> tuple[str, str]:
    """A call in a form that compares: 1, 1.0 and true are three values, and keys have no order."""
    return name, json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments, sort_keys=True)
