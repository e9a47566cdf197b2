"""Whether a call, written in the format again, gives its own text: what shows that its name and arguments are what was sampled.

The calls of a completion are put into a small conversation, which is rendered, and each call's raw text is looked for in the
result. Alike are texts that differ in blanks between JSON values and tags, in the escapes of JSON texts, in how a number or a
word is printed (``1e2``, ``True``). A string value must stand in the raw text as it is, with the blanks around it that the
format writes. What this can't show is a value that swallowed the next parameter: written again it looks the same. So a value
that has the format's own closing or opening of a parameter in it isn't OK either.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..types import ToolCall
from .arguments import json_value

Render = Callable[[list[dict[str, Any]]], str]
"""Messages to the text of their prompt, control tokens spelled out."""

QUESTION = {"role": "user", "content": "ping"}
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>(?<![\w.])-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<blank>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_HEADER = re.compile(r"""(?:[^{}\[\]"\d]|\[/?[A-Z_]+\])*""")
"""What may stand around the JSON arguments of a call that is sampled in another way than the template writes it."""
_LONGEST_HEADER = 160


class Rewriter:
    """Writes calls again, with one small render for all calls of a completion.

    Args:
        render: The backend's own.
        written_calls: Calls to their text, where the backend says how the model writes them.
    """

    def __init__(self, render: Render, written_calls: Callable[[Sequence[ToolCall]], str] | None = None) -> None:
        self._render, self._written_calls = render, written_calls

    def faults(self, calls: Sequence[ToolCall]) -> list[str | None]:
        """For each call why it isn't what its raw text says, or ``None``: it is."""
        try:
            written: str | None
            if self._written_calls is not None:
                written = self._written_calls(calls)
            else:
                written = self._render([QUESTION, _turn(calls)])
        except Exception:  # a format without calls upstream, or a name or value that it refuses
            written = None
        return [fault(call, written) for call in calls]


def fault(call: ToolCall, written: str | None) -> str | None:
    """Why a call isn't what its raw text says, or ``None``.

    Args:
        call: One whose status is OK.
        written: A text that has it, written again; ``None`` where the backend can't write calls.
    """
    arguments = call["function"]["arguments"]
    try:
        values = json_value(arguments)
    except (ValueError, RecursionError):
        return "its arguments aren't JSON that can be read"
    if not isinstance(values, dict):
        return "its arguments aren't an object"
    header = _header(call, arguments)
    if header is not None and len(header) <= _LONGEST_HEADER and _HEADER.fullmatch(header):
        return None  # the very text of the arguments, behind the name and what can't be a value
    if written is None:
        return None if header is not None else "it can't be written again, and its arguments aren't in its text as they are"
    if not (call.raw.strip() in written or _alike(call.raw, written, values)):
        return "written again it isn't the text that was sampled"
    if header is not None:
        return None
    for key, value in values.items():
        for text in _strings(value):
            if not _stands(key, text, call.raw, written, nested=text is not value):
                return f"the text of {key!r} isn't in it as it was sampled"
        if isinstance(value, str) and _swallows(key, value, written):
            return f"the text of {key!r} has the format's own marks of a parameter in it, and may be more than one"
    return None


def located(text: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls, those without a raw text with the part of the completion that has their name and, behind it, their arguments
    as they are; upstream parsers often keep no raw text."""
    out, at = [], 0
    for call in calls:
        if not call.raw and call.name:
            written = re.escape(call.name) + r"[^{}]{0,160}?" + re.escape(call["function"]["arguments"])
            found = re.compile(written).search(text, at)
            if found is not None:
                at = found.end()
                call = ToolCall(call.name, call["function"]["arguments"], id=call.id, raw=found.group(), status=call.status)
        elif text.find(call.raw, at) >= 0:
            at = text.index(call.raw, at) + len(call.raw)
        out.append(call)
    return out


def _turn(calls: Sequence[ToolCall]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call.id or f"call{at:05d}", "type": "function", "function": dict(call["function"])}
            for at, call in enumerate(calls)
        ],
    }


def _header(call: ToolCall, arguments: str) -> str | None:
    """What of the raw text isn't name, id and arguments, where the arguments stand in it as they are; else ``None``."""
    raw = call.raw
    if raw.count(arguments) != 1 or not arguments.startswith("{"):
        return None
    raw = raw.replace(arguments, "")
    if call.id:
        raw = raw.replace(call.id, "", 1)
    if call.name in raw:
        raw = raw.replace(call.name, "", 1)
    elif not call.id or call.name not in call.id:
        return None
    return raw


def _alike(raw: str, written: str, values: Mapping[str, Any]) -> bool:
    """Whether a raw text stands in what was written again; for formats that sort the keys, in another order of its pairs."""
    mine, theirs = _canonical(raw), _canonical(written)
    if "".join(mine) in "".join(theirs):
        return True
    counted, size = Counter(mine), len(mine)
    if not any(Counter(theirs[at : at + size]) == counted for at in range(len(theirs) - size + 1) if theirs[at] == mine[0]):
        return False
    return all(pair in "".join(mine) for pair in _pairs(values, "".join(theirs)))


def _pairs(values: Any, written: str) -> Iterator[str]:
    """Each key with its value, as the format writes them, in canonical form."""
    if isinstance(values, list):
        for each in values:
            yield from _pairs(each, written)
    elif isinstance(values, Mapping):
        for key, value in values.items():
            if isinstance(value, (list, Mapping)):
                yield from _pairs(value, written)
                continue
            text = "".join(_canonical(value if isinstance(value, str) else json.dumps(value)))
            found = re.search(re.escape("".join(_canonical(key))) + r"[^\w]{1,8}" + re.escape(text), written)
            yield found.group() if found else "\0"


def _canonical(text: str) -> list[str]:
    """The parts of a text without its blanks; JSON texts, numbers and words in one form each."""
    out = []
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "string":
            try:
                token = json.dumps(json.loads(token), ensure_ascii=False)
            except ValueError:
                token = "".join(token.split())
        elif kind == "number":
            token = _number(token)
        elif kind == "word" and token.lower() in ("true", "false", "none", "null"):
            token = token.lower().replace("none", "null")
        elif kind == "blank":
            token = ""
        if token:
            out.append(token)
    return out


def _number(text: str) -> str:
    try:
        value = json_value(text)
    except ValueError:
        return text
    return repr(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _stands(key: str, text: str, raw: str, written: str, *, nested: bool) -> bool:
    """Whether a string stands in the raw text with the blanks around it that the format writes, or as JSON text."""
    marks = _marks(key, text, written)
    if marks is not None:
        _, between, closing = marks
        # Between the format's tags blanks are free, at the edges of the value they aren't.
        free = r"\s*".join(map(re.escape, re.findall(r"<[^<>]*>?|[^<\s]+", between)))
        edges = between[len(between.rstrip()) :], closing[: len(closing) - len(closing.lstrip())]
        value = re.escape(edges[0] + text + edges[1] + closing.lstrip())
        if re.search(re.escape(key) + r"\s*" + free + value, raw):
            return True
    elif not text.strip() or _blanks(text, written) & _blanks(text, raw) or (nested and _blanks(text, raw)):
        return True
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted in raw or quoted in _canonical_strings(raw)


def _blanks(text: str, where: str) -> set[tuple[str, str]]:
    """The blanks directly around each place where a text stands, as (before, behind)."""
    out: set[tuple[str, str]] = set()
    at = where.find(text)
    while at >= 0 and len(out) < 64:
        before, behind = where[:at], where[at + len(text) :]
        inside = (text[:1].isalnum() and before[-1:].isalnum()) or (text[-1:].isalnum() and behind[:1].isalnum())
        left, right = before[-64:], behind[:64]
        if not inside:
            out.add((left[len(left.rstrip()) :], right[: len(right) - len(right.lstrip())]))
        at = where.find(text, at + 1)
    return out


def _canonical_strings(raw: str) -> str:
    return "".join("".join(_canonical(match.group())) for match in re.finditer(r'"(?:[^"\\]|\\.)*"', raw, re.DOTALL))


def _swallows(key: str, value: str, written: str) -> bool:
    """Whether a value has marks in it by which the format closes a parameter or opens the next one."""
    found = _marks(key, value, written)
    if found is None:
        return False
    opening, between, closing = found
    if closing.strip() and closing.rstrip("\n") in value:
        return True
    marks = {mark for mark in (*re.findall(r"<[^<>\s]*>?", opening), *re.findall(r"<[^<>\s]*>", between)) if len(mark) > 2}
    inside = [mark for mark in marks if mark in value]
    return (
        len(inside) > 1
        or any(value.strip().startswith(mark) for mark in inside)
        or bool(opening.strip() and "\n" in opening and opening[opening.rindex("\n") :] in value)
    )


def _marks(key: str, value: str, written: str) -> tuple[str, str, str] | None:
    """What the format writes in front of a parameter's name, between name and value, and behind the value."""
    at = written.find(value)
    while at >= 0 and value:
        named = written.rfind(key, max(0, at - 200 - len(key)), at)
        if named >= 0:
            between = written[named + len(key) : at]
            if "<" in between or ">" in between:
                before = written[max(0, named - 64) : named]
                opening = before[max(before.rfind("<"), 0) :]
                head = before[: len(before) - len(opening)]
                opening = ("\n" if head.endswith("\n") else "") + opening
                behind = written[at + len(value) : at + len(value) + 64]
                return opening, between, behind[: behind.find(">") + 1]
        at = written.find(value, at + 1)
    return None
