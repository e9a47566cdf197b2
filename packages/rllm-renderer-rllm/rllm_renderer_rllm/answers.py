"""Whether a caller's messages go on from a completion, so that its sampled ids may stand for the assistant's message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.errors import MessageError
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.types import Message

from .messages import plain_messages


def follows_completion(new_messages: Sequence[Message], output: Any) -> bool:
    """Whether the first of these messages is the completion, and no other is the assistant's.

    A message that was edited, another of several samples, and an answer that was thrown away are told by this: ids of the
    completion would then say to the model what the messages don't say. White space at the edges of a text doesn't count, since
    parsers strip it. Reasoning may be left out, and calls where a result of theirs follows: rLLM's ``Step`` leaves them out.

    Args:
        new_messages: What follows the messages that the completion answered.
        output: rLLM's ``ModelOutput`` of the completion, or an ``EngineOutput``.
    """
    roles = [_role(message) for message in new_messages]
    if roles[:1] != ["assistant"] or "assistant" in roles[1:]:
        return False
    try:
        (answer,) = normalize_messages(plain_messages(new_messages[:1]))
    except MessageError:
        return False  # no completion is parsed to it; who renders it gets the reason
    content, reasoning = answer["content"], answer.get("reasoning_content")
    if not isinstance(content, str):
        return False
    calls = [_said(call["function"]["name"], call["function"]["arguments"]) for call in answer.get("tool_calls", ())]
    raw = getattr(output, "text", None)
    if raw and not calls and not reasoning and content.strip() == raw.strip():
        return True  # the completion's text as it was sampled, its reasoning and calls among it
    if content.strip() != (output.content or "").strip():
        return False
    if reasoning and reasoning.strip() != (output.reasoning or "").strip():
        return False
    answered = roles[1:2] == ["tool"]
    return (not calls and answered) or calls == [_said(*_parts(call)) for call in output.tool_calls or ()]


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)


def _parts(call: Any) -> tuple[str, Any]:
    """Name and arguments of a call of an ``EngineOutput``, or of rLLM's ``ToolCall``."""
    return (call["name"], call["arguments"]) if isinstance(call, Mapping) else (call.name, call.arguments)


def _said(name: str, arguments: Any) -> tuple[str, str]:
    """A call in a form that compares: 1, 1.0 and true are three values, and keys have no order."""
    return name, json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments, sort_keys=True)
