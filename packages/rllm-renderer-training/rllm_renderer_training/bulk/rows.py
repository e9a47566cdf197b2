"""Rows of data sets as conversations: OpenAI's ``messages``, or ShareGPT's ``conversations``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rllm_renderer_core.errors import MessageError, ToolError
from rllm_renderer_core.normal_form.tools import normalize_tools

from ..sequences.weights import WEIGHT_KEYS

CONVERSATIONS = ("messages", "conversations")
COLUMNS = (*CONVERSATIONS, "tools", "system")
"""What of a row is read."""

SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "tool": "tool",
}


def conversation_of(row: Mapping[str, Any], *, columnar: bool = True) -> tuple[list[Any], list[Any] | None]:
    """The messages of a row, and its tools.

    Columns: ``messages`` or ``conversations``, and where there are any ``tools`` and ShareGPT's ``system``; each may be JSON
    text. A row of a ``columnar`` source may not have nulls in arguments and tools, but for properties of a tool's schema: those
    are the other tools', and no renderer gets them.

    Raises:
        MessageError, ToolError: The row can't be read as a conversation.
    """
    tools = _parsed(row.get("tools"), "tools")
    if tools is not None and not isinstance(tools, list):
        raise ToolError(f"tools must be a list, not {type(tools).__name__}")
    if columnar and not isinstance(row.get("tools"), str):
        _refuse_nulls(normalize_tools(tools), "tools")  # what isn't a null property
    messages = _parsed(row.get("messages"), "messages")
    as_text = isinstance(row.get("messages"), str)
    if messages is None:
        shared = _parsed(row.get("conversations"), "conversations")
        if shared is None:
            raise MessageError("the row has neither messages nor conversations")
        messages, as_text = _from_sharegpt(shared, row.get("system")), True  # its calls are JSON text in any case
    if not isinstance(messages, list):
        raise MessageError(f"messages must be a list, not {type(messages).__name__}")
    for index, message in enumerate(messages if columnar and not as_text else ()):
        if isinstance(message, Mapping):
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():  # what else it is, the messages' own check says
                function = call.get("function") if isinstance(call, Mapping) else None
                if isinstance(function, Mapping):
                    _refuse_nulls(function.get("arguments"), f"message {index}: arguments")
    return messages, tools or None


def _parsed(value: Any, what: str) -> Any:
    """The value of JSON text, where it is text; of blank text none."""
    if isinstance(value, str):
        try:
            return json.loads(value) if value.strip() else None
        except (ValueError, RecursionError) as error:
            raise MessageError(f"{what} is text, and not JSON: {error}") from None
    return value


def _refuse_nulls(value: Any, what: str) -> None:
    """Columnar files give every mapping of a column the keys of all, as nulls: which were in the data isn't known any more."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if inner is None:
                raise MessageError(
                    f"{what} have {key!r} as null, which a columnar file adds where other rows have that key",
                    fix="store it as JSON text",
                )
            _refuse_nulls(inner, what)
    elif isinstance(value, list):
        for inner in value:
            _refuse_nulls(inner, what)


def _from_sharegpt(turns: Any, system: Any) -> list[dict[str, Any]]:
    if not isinstance(turns, list):
        raise MessageError(f"conversations must be a list, not {type(turns).__name__}")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
    for index, turn in enumerate(turns):
        role = SHAREGPT_ROLES.get(str(turn.get("from"))) if isinstance(turn, Mapping) else None
        value = turn.get("value") if isinstance(turn, Mapping) else None
        if role is None or not isinstance(value, str):
            raise MessageError(f"conversations: turn {index} has no known from and text value", index=index)
        message: dict[str, Any] = {"role": role, "content": value}
        if turn["from"] == "function_call":
            call = _parsed(value, f"conversations: turn {index}")
            if not isinstance(call, Mapping) or not call.get("name"):
                raise MessageError(f"conversations: turn {index} is a function_call without a name", index=index)
            arguments = call.get("arguments", {})
            name = str(call["name"])
            message = {"role": role, "content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
        messages.append({**message, **{key: turn[key] for key in WEIGHT_KEYS if turn.get(key) is not None}})
    return messages
