"""Which ids of a turn are its reasoning, its text and its calls: found by rendering the turn with one of them altered.

Ids up to where the text begins to matter are the reasoning's, its closing marker included; from where the text stops
mattering they are the calls', the stop included; between the two lies the text. A format that writes them in another order, or
mixes them, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import OptionError
from rllm_renderer_core.normal_form.ids import common_prefix

from ..errors import UnreachableTurnError
from .targets import Messages, Target, Targets

PARTS = ("reasoning", "content", "tool_calls")
_MARKERS = ("alpha1", "omega7")


def part_weights(
    targets: Targets, messages: Messages, target: Target, tools: Sequence[Any] | None, parts: frozenset[str]
) -> list[bool]:
    """For each id of the completion, whether it belongs to one of these parts.

    Raises:
        OptionError: The format doesn't keep the parts apart.
    """
    message, size = messages[target.index], len(target.completion)
    reasoned = bool((message.get("reasoning_content") or "").strip())
    called = bool(message.get("tool_calls"))
    spoken = bool(message["content"]) if isinstance(message["content"], str) else True
    if not isinstance(message["content"], str):
        raise _not_apart(target.index, "its content has media")
    first = _first_difference(targets, messages, target, tools, {"content": [mark + message["content"] for mark in _MARKERS]})
    last = size
    if called:
        ends = [message["content"] + mark for mark in _MARKERS] if spoken else list(_MARKERS)
        last = size - _last_difference(targets, messages, target, tools, {"content": ends})
        if not spoken:
            first = last = min(first, last)
    if reasoned:
        marks = [mark + message["reasoning_content"] for mark in _MARKERS]
        if _first_difference(targets, messages, target, tools, {"reasoning_content": marks}) > first:
            raise _not_apart(target.index, "its reasoning doesn't come before its text")
    if called:
        call = message["tool_calls"][0]
        changed = [
            [{**call, "function": {**call["function"], "arguments": json.dumps({mark: mark})}}, *message["tool_calls"][1:]]
            for mark in _MARKERS
        ]
        if _first_difference(targets, messages, target, tools, {"tool_calls": changed}) < last:
            raise _not_apart(target.index, "its calls don't come behind its text")
    bounds = {"reasoning": (0, first), "content": (first, last), "tool_calls": (last, size)}
    kept = [False] * size
    for part in parts:
        start, end = bounds[part]
        kept[start:end] = [True] * (end - start)
    return kept


def _first_difference(
    targets: Targets, messages: Messages, target: Target, tools: Sequence[Any] | None, changes: dict[str, list[Any]]
) -> int:
    """The first id of the completion at which one of these changes of the message shows."""
    found = [common_prefix(target.completion, ids) for ids in _changed(targets, messages, target, tools, changes)]
    return min(found, default=len(target.completion))


def _last_difference(
    targets: Targets, messages: Messages, target: Target, tools: Sequence[Any] | None, changes: dict[str, list[Any]]
) -> int:
    """How many ids at the end of the completion are the same under all of these changes."""
    ids = _changed(targets, messages, target, tools, changes)
    return min((common_prefix(reversed(target.completion), reversed(each)) for each in ids), default=0)


def _changed(
    targets: Targets, messages: Messages, target: Target, tools: Sequence[Any] | None, changes: dict[str, list[Any]]
) -> list[list[int]]:
    """The completions of the message with each change."""
    ((key, values),) = changes.items()
    history, message = list(messages[: target.index]), messages[target.index]
    out = []
    for value in values:
        try:
            out.append(targets.target([*history, {**message, key: value}], target.index, tools).completion)
        except UnreachableTurnError as error:
            raise _not_apart(target.index, str(error).splitlines()[0]) from error
    return out


def _not_apart(index: int, why: str) -> OptionError:
    return OptionError(
        f"parts: the reasoning, text and calls of message {index} can't be told apart: {why}",
        fix="train the whole turn: leave parts out",
        option="parts",
    )
