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
from rllm_renderer_core.probing.calls import ANSWER, NAME

from ..errors import UnreachableTurnError
from .targets import Messages, Target, Targets

PARTS = ("reasoning", "content", "tool_calls")
_WORDS = (ANSWER, NAME)


def part_weights(
    targets: Targets, messages: Messages, target: Target, tools: Sequence[Any] | None, parts: frozenset[str]
) -> list[bool]:
    """For each id of the completion, whether it belongs to one of these parts; an ``OptionError`` where they aren't apart."""
    message, completion = messages[target.index], target.completion
    text, calls, size = message["content"], message.get("tool_calls") or [], len(completion)
    if not isinstance(text, str):
        raise _not_apart(target.index, "its content has media")

    def kept_under(key: str, values: list[Any]) -> tuple[int, int]:
        """How many ids the completion begins with, and ends with, alike under all of these changes of the message."""
        starts, ends = [], []
        for value in values:
            changed = [*messages[: target.index], {**message, key: value}]
            try:
                ids = targets.target(changed, target.index, tools).completion
            except UnreachableTurnError as error:
                raise _not_apart(target.index, str(error).splitlines()[0]) from error
            starts.append(common_prefix(completion, ids))
            ends.append(common_prefix(reversed(completion), reversed(ids)))
        return min(starts), min(ends)

    first, last = kept_under("content", [word + text for word in _WORDS])[0], size
    if calls:
        last = size - kept_under("content", [text + word if text else word for word in _WORDS])[1]
        first, last = (first, last) if text else (min(first, last),) * 2
    reasoning = message.get("reasoning_content") or ""
    if reasoning.strip() and kept_under("reasoning_content", [word + reasoning for word in _WORDS])[0] > first:
        raise _not_apart(target.index, "its reasoning doesn't come before its text")
    if calls:
        called = [{**calls[0]["function"], "arguments": json.dumps({word: word})} for word in _WORDS]
        if kept_under("tool_calls", [[{**calls[0], "function": function}, *calls[1:]] for function in called])[0] < last:
            raise _not_apart(target.index, "its calls don't come behind its text")
    bounds = {"reasoning": (0, first), "content": (first, last), "tool_calls": (last, size)}
    return [any(start <= at < end for start, end in map(bounds.__getitem__, parts)) for at in range(size)]


def _not_apart(index: int, why: str) -> OptionError:
    return OptionError(
        f"parts: the reasoning, text and calls of message {index} can't be told apart: {why}",
        fix="train the whole turn: leave parts out",
        option="parts",
    )
