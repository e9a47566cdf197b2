"""Messages and tools in the core's normal form, as upstream's ``MessageList``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

BREAK = "rllm-renderer-break"
"""Role of an entry that isn't a message: upstream's end of sampling, by which it keeps two turns of one role apart."""


def to_upstream(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[dict[str, Any]] | None, declares: str | None = None
) -> Any:
    """Upstream's messages, the tools declared before them.

    Args:
        messages: In normal form; entries of role ``BREAK`` say by ``kind`` who ends there.
        tools: OpenAI's wrappers.
        declares: The name that the system has where it declares tools, in formats that write one.
    """
    from tml_renderers import chat

    converted = [_message(message) if message["role"] == "assistant" else message for message in messages]
    if not tools and not any(message["role"] == BREAK for message in messages):
        return chat.MessageList.from_oss_messages(converted)
    out: list[Any] = []
    if tools:
        specs = [_declaration(chat, tool["function"]) for tool in tools]
        out.append(chat.Message(chat.ToolDeclareJson(specs), chat.Author(chat.AuthorKind.System, declares)))
    start = 0
    for at, message in enumerate(converted):
        if message["role"] == BREAK:
            out += chat.MessageList.from_oss_messages(converted[start:at]).messages
            out.append(chat.Message(chat.ModelEndSampling(), chat.Author(getattr(chat.AuthorKind, message["kind"]))))
            start = at + 1
    out += chat.MessageList.from_oss_messages(converted[start:]).messages
    return chat.MessageList(out)


def _declaration(chat: Any, function: dict[str, Any]) -> Any:
    return chat.ToolSpecJson(
        "function", function["name"], function.get("description") or "", dict(function.get("parameters") or {})
    )


def _message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """An assistant's turn: reasoning as a thinking part, and no text part where there is no text."""
    reasoning = message.get("reasoning_content")
    if not reasoning:
        return message
    content = message["content"]
    parts: list[dict[str, Any]] = [{"type": "thinking", "thinking": reasoning}]
    if isinstance(content, list):
        parts += content
    elif content:
        parts.append({"type": "text", "text": content})
    return {**{key: value for key, value in message.items() if key != "reasoning_content"}, "content": parts}


def as_json(value: Any) -> str:
    """JSON as Jinja's ``tojson`` prints it in transformers."""
    return json.dumps(value, ensure_ascii=False)


def canonical_json(value: Any) -> str:
    """JSON without spaces, the keys of every object in order."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
