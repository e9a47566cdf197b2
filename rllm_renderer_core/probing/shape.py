"""The shape of a conversation: whatever decides what a format shows of it, and cheap to compare."""

from __future__ import annotations

from typing import Any

MOST_REPEATS = 3
"""How often a group of messages (a call and its result) comes in a row before further ones are taken to be rendered alike."""
_BARE = ("role", "content")


def shape_of(messages: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Of each message its role, its keys, whether its text is blank, and what it calls or answers."""
    calls: dict[str, tuple[int, int]] = {}
    out: list[Any] = []
    for index, message in enumerate(messages):
        content, role = message["content"], message["role"]
        if len(message) == 2 and type(content) is str and content and not content.isspace():  # most messages
            out.append((role, _BARE if next(iter(message)) == "role" else tuple(message), True, None, False))
            continue
        blank = content if not content or (isinstance(content, str) and content.isspace()) else True
        own: Any = None
        if "tool_calls" in message:
            own = tuple(_shape_of_call(call, index, at, calls) for at, call in enumerate(message["tool_calls"]))
        elif role == "tool":
            call_id = message.get("tool_call_id")
            answered = calls.get(call_id) if call_id is not None else None
            own = None if answered is None else (index - answered[0], answered[1])
        reasoning = message.get("reasoning_content")
        out.append((role, tuple(message), blank, own, bool(reasoning)))
    return tuple(out)


def _shape_of_call(call: dict[str, Any], index: int, at: int, calls: dict[str, tuple[int, int]]) -> tuple[Any, ...]:
    call_id, function = call.get("id"), call["function"]
    if call_id is not None:
        calls[call_id] = index, at
    return call_id and function["name"] in call_id, function["arguments"] == "{}"


def declared_shapes(tools: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The different shapes among the declarations: how many have one changes nothing."""
    return tuple(dict.fromkeys((tuple(tool), tuple(tool["function"])) for tool in tools))


def without_repeats(shape: tuple[Any, ...]) -> list[int]:
    """Indices of messages without the fourth and later of equal groups in a row, of one to four messages each."""
    kept = list(range(len(shape)))
    for size in (1, 2, 3, 4):
        out: list[int] = []
        for index in kept:
            out.append(index)
            behind = out[-size * (MOST_REPEATS + 1) :]
            if len(behind) == size * (MOST_REPEATS + 1):
                groups = [[shape[at] for at in behind[start : start + size]] for start in range(0, len(behind), size)]
                if all(group == groups[0] for group in groups):
                    del out[-size:]
        kept = out
    return kept
