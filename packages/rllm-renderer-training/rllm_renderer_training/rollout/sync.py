"""Whether a conversation that a client sent continues the recorded one, and where it first differs if not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .replies import Reply, ShownCall
from .segment import Segment

Messages = list[dict[str, Any]]


class Comparison(NamedTuple):
    """A conversation beside that of a segment."""

    difference: str | None  # why the one doesn't continue the other; None where it does
    matched: int  # how many messages are the same
    new: Sequence[dict[str, Any]] = ()  # the messages behind those, their results with the ids of the recorded calls


def compare(segment: Segment, incoming: Messages, tools: Any) -> Comparison:
    """Whether a conversation, with the tools that are declared with it, continues a segment's; all in normal form."""
    recorded, replies = segment.messages, segment.replies
    ids: dict[str, str] = {}  # of calls: the client's to the recorded ones
    if tools != segment.tools:
        return Comparison("the declared tools changed", 0)
    for index, ours in enumerate(recorded):
        if index >= len(incoming):
            missing = f"message {index} ({ours['role']}) is missing: {len(incoming)} messages of {len(recorded)} came"
            return Comparison(missing, index)
        theirs = _with_ids(incoming[index], ids)
        what = _difference(ours, replies.get(index), theirs)
        if what is not None:
            return Comparison(f"message {index} ({ours['role']}) differs {what}", index)
        for mine, other in zip(_calls(ours, replies.get(index)), theirs.get("tool_calls") or (), strict=False):
            if mine.id is not None and other.get("id") is not None:
                ids[other["id"]] = mine.id
    new, known = [_with_ids(message, ids) for message in incoming[len(recorded) :]], len(recorded)
    foreign = next((index for index, message in enumerate(new) if message["role"] == "assistant"), None)
    if foreign is not None:
        return Comparison(f"message {known + foreign} (assistant) wasn't sampled here", known)
    if new and not segment.recorded:
        return Comparison("messages came before anything was sampled from the prompt", known)
    if not new and segment.recorded:
        return Comparison("there is no new message", known)
    return Comparison(None, known, new)


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
    if not isinstance(theirs["content"], str) or theirs["content"].strip() not in [_trimmed(content) for content in contents]:
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
