"""What of an assistant message its completion may not have: found in the completion's text, to be decided by a further render.

A text that can't be read in the completion isn't there. One that can be read may still be another's: a reasoning "4" is read
in the answer "It's 4.", and short words in the format's own. Such a part is doubtful: whether it is there shows where the
message is rendered without it, or with another in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_ALTERED = "zq9 "
_SHORT = 32
"""Up to so many characters a text may stand in the format's own words: channels, roles, tags."""

API_KEYS = {
    "function_call": "write it as tool_calls",
    "refusal": "write it as content",
    "thinking": "write it as reasoning_content",
    "thinking_blocks": "write them as reasoning_content",
    "reasoning_details": "write them as reasoning_content",
    "tool_plan": "write it as reasoning_content",
    "audio": "leave the message out, or give it the weight 0",
}
"""Keys in which APIs have what an assistant says beside content, reasoning and calls, each with what to do about it. A format
may have a place for them: gpt-oss's template for ``thinking``."""

_TEXTS = ("text", "thinking", "summary")
"""Keys of the texts in thinking blocks and reasoning details."""


class Part(NamedTuple):
    """A part that may be left out."""

    name: str  # in words, behind "its"
    changed: dict[str, Any]  # the message without it, or with another in its place
    fix: str = ""  # what to do if it is left out; "" if there is nothing but to take it out


def shows(message: Mapping[str, Any], text: str) -> bool:
    """Whether the texts of the message and the names of its calls can all be read in a text, each as its own."""
    reasoning, content, names = _said(message)
    return (
        reasoning in text
        and content in text
        and not (reasoning and reasoning in content)
        and all(text.count(name) >= names.count(name) for name in {*names})
    )


def doubtful(message: dict[str, Any], text: str) -> Iterator[Part]:
    """The parts that can't be read in the completion's text, and those that may be read there as another's.

    Texts and calls need no more than that: the renderer looks for them itself, by the shape of a conversation, and refuses one
    of which it leaves a text or a call out. Reasoning it doesn't ask for.
    """
    reasoning, content, names = _said(message)
    if reasoning and (len(reasoning) <= _SHORT or reasoning not in text or _elsewhere(message)):
        yield Part("reasoning", {**message, "reasoning_content": _ALTERED + message["reasoning_content"]})
    if content not in text and (reasoning or names):
        yield Part("text", {**message, "content": _ALTERED + message["content"]})
    for at, name in enumerate(names):
        if text.count(name) < names.count(name):
            calls = message["tool_calls"]
            yield Part(f"call {at} ({name})", {**message, "tool_calls": calls[:at] + calls[at + 1 :]})
    for key, fix in API_KEYS.items():
        if _says(message.get(key)) and not _repeats(message[key], reasoning):
            yield Part(key, {other: value for other, value in message.items() if other != key}, fix)


def _elsewhere(message: Mapping[str, Any]) -> bool:
    """Whether the reasoning's text is in another part of the message: as it is, or as JSON has it."""
    reasoning, content, names = _said(message)
    if any(reasoning in text for text in (content, *names)):
        return True
    escaped = [json.dumps(reasoning, ensure_ascii=ascii)[1:-1] for ascii in (False, True)]
    return any(text in call["function"]["arguments"] for text in escaped for call in message.get("tool_calls") or ())


def _said(message: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """The reasoning, the content's text and the names of the calls."""
    reasoning, content = (message.get("reasoning_content") or "").strip(), message["content"]
    names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return reasoning, content.strip() if isinstance(content, str) else "", names


def _says(value: Any) -> bool:
    """Whether there is any text in it: columnar files have the keys of other rows, as nulls; some data sets have flags."""
    if isinstance(value, (Mapping, list, tuple)):
        return any(map(_says, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, str) and bool(value.strip())


def _repeats(value: Any, reasoning: str) -> bool:
    """Whether it is the reasoning once more, as APIs give it beside ``reasoning_content``: as text, or in blocks, of which
    those that are encrypted have no text."""
    if not reasoning:
        return False
    if isinstance(value, (list, tuple)):
        blocks = [block for block in value if isinstance(block, Mapping)]
        texts = [next((block[key] for key in _TEXTS if isinstance(block.get(key), str)), "") for block in blocks]
        return "".join(texts).strip() in ("", reasoning)
    return isinstance(value, str) and value.strip() == reasoning
