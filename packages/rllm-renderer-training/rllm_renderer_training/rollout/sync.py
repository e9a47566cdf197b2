"""Whether a conversation that a client sent continues the recorded one, and where it first differs if not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .replies import Reply, ShownCall

Messages = list[dict[str, Any]]


def compare(recorded: Messages, replies: Mapping[int, Reply], incoming: Messages) -> tuple[str | None, Messages]:
    """The first difference, or ``None`` and the messages that are new, their results with the ids of the recorded calls.

    Args:
        recorded: The conversation so far, in normal form.
        replies: Its sampled turns as they were shown, by the index of their message.
        incoming: The conversation as it was sent, in normal form.
    """
    ids: dict[str, str] = {}  # of calls: the client's to the recorded ones
    for index, ours in enumerate(recorded):
        if index >= len(incoming):
            return f"message {index} ({ours['role']}) is missing: {len(incoming)} messages of {len(recorded)} came", []
        theirs = _with_ids(incoming[index], ids)
        what = _difference(ours, replies.get(index), theirs)
        if what is not None:
            return f"message {index} ({ours['role']}) differs {what}", []
        for mine, other in zip(_calls(ours, replies.get(index)), theirs.get("tool_calls") or (), strict=False):
            if mine.id is not None and other.get("id") is not None:
                ids[other["id"]] = mine.id
    new = [_with_ids(message, ids) for message in incoming[len(recorded) :]]
    said = next((index for index, message in enumerate(new) if message["role"] == "assistant"), None)
    if said is not None:
        return f"message {len(recorded) + said} (assistant) wasn't sampled here", []
    return None, new


def _difference(ours: dict[str, Any], reply: Reply | None, theirs: dict[str, Any]) -> str | None:
    if ours["role"] != theirs["role"]:
        return f"in its role, {theirs['role']}"
    if ours["role"] == "assistant":
        return _assistant_difference(ours, reply, theirs)
    if ours["content"] != theirs["content"]:
        return f"in its content: {_excerpt(ours['content'], theirs['content'])}"
    for key in ("tool_call_id", "name"):
        if ours.get(key) and theirs.get(key) and ours[key] != theirs[key]:
            return f"in its {key}: {ours[key]!r} was recorded, {theirs[key]!r} came"
    return None


def _assistant_difference(ours: dict[str, Any], reply: Reply | None, theirs: dict[str, Any]) -> str | None:
    """Clients trim content, drop reasoning and write arguments in their own spacing; a server may show broken calls or not."""
    contents = [ours["content"]] if reply is None else [ours["content"], reply.content]
    if not isinstance(theirs["content"], str) or theirs["content"].strip() not in [_trimmed(each) for each in contents]:
        return f"in its content: {_excerpt(ours['content'], theirs['content'])}"
    came = [(call["function"]["name"], _json(call["function"]["arguments"])) for call in theirs.get("tool_calls") or ()]
    shown = [
        [(call.name, _json(call.arguments)) for call in calls]
        for calls in (_calls(ours, reply), [call for call in _calls(ours, reply) if call.ok])
    ]
    if came not in shown:
        return f"in its tool calls: {_excerpt(shown[-1], came)}"
    reasoning, kept = ours.get("reasoning_content"), theirs.get("reasoning_content")
    if kept and reasoning is not None and _trimmed(kept) != _trimmed(reasoning):
        return f"in its reasoning: {_excerpt(reasoning, kept)}"
    if kept and not reasoning:
        return "in its reasoning: none was recorded"
    return None


def _calls(message: dict[str, Any], reply: Reply | None) -> Sequence[ShownCall]:
    if reply is not None:
        return reply.calls
    calls = message.get("tool_calls") or ()
    return [ShownCall(call["function"]["name"], call.get("id"), call["function"]["arguments"], True) for call in calls]


def _json(text: str) -> Any:
    """Arguments without their spacing; text that doesn't parse as it is."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _with_ids(message: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    given = message.get("tool_call_id")
    return {**message, "tool_call_id": ids[given]} if isinstance(given, str) and given in ids else message


def _trimmed(content: Any) -> Any:
    return content.strip() if isinstance(content, str) else content


def _excerpt(ours: Any, theirs: Any) -> str:
    mine, other = str(ours), str(theirs)
    at = next((index for index, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b), min(len(mine), len(other)))
    start = max(0, at - 10)
    return f"{mine[start : at + 30]!r} was recorded, {other[start : at + 30]!r} came"
