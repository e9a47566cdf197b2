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
from functools import cache
from typing import Any

from ...normal_form.arguments import Schema, json_value
from ...probing.calls import QUESTION, call_ids, tool_call
from ...probing.text import Atom
from ...types import ToolCall
from .argument_texts import stands, swallows, texts_in
from .canonical import canonical

Render = Callable[[list[dict[str, Any]]], str]
"""Messages to the text of their prompt, control tokens spelled out."""

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

    def _write(self, calls: Sequence[ToolCall]) -> str | None:
        try:
            return self._render([QUESTION, _turn(calls)]) if self._written_calls is None else self._written_calls(calls)
        except Exception:  # a format without calls upstream, or a name or value that it refuses
            return None

    def faults(
        self, calls: Sequence[ToolCall], atoms: Sequence[Atom] = (), tools: Sequence[Any] | None = None
    ) -> list[str | None]:
        """For each call why it isn't what its raw text says, or ``None``: it is.

        Args:
            calls: Those whose status is OK.
            atoms: The completion. A text in it that has no control token can't be a mark that is one.
            tools: Declarations in normal form.
        """
        found = self._faults(calls, atoms, tools)
        if len(calls) > 1 and any(found):  # the text of a sound call must not be what a broken one gives when it is written
            found = [why or self._faults([call], atoms, tools)[0] for call, why in zip(calls, found, strict=True)]
        return found

    def _faults(self, calls: Sequence[ToolCall], atoms: Sequence[Atom], tools: Sequence[Any] | None) -> list[str | None]:
        @cache  # only calls whose own text doesn't show it need a render, and all of them one
        def written() -> str | None:
            return self._write(calls)

        return [fault(call, written, atoms, tools) for call in calls]


def fault(
    call: ToolCall,
    again: str | Callable[[], str | None] | None,
    atoms: Sequence[Atom] = (),
    tools: Sequence[Any] | None = None,
) -> str | None:
    """Why a call isn't what its raw text says, or ``None``.

    Args:
        call: One whose status is OK.
        again: A text that has it, written again, or what gives one; ``None`` where the backend can't write calls.
        atoms: The completion.
        tools: Declarations in normal form.
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
    if _is_json_call(call, values):
        return None
    written = again() if callable(again) else again
    if written is None:
        return None if header is not None else "it can't be written again, and its arguments aren't in its text as they are"
    if not (call.raw.strip() in written or _alike(call.raw, written, values)):
        written = _with_json(written, values)  # a template may print lists and objects as Python does
        if not _alike(call.raw, written, values):
            return "written again it isn't the text that was sampled"
    if header is not None:
        return None
    schema = Schema.of_tool(tools, call["function"]["name"])
    for key, value in values.items():
        if not schema.member(key).accepts(value):  # bare text, read as a number where a text is declared: 1.50, as 1.5
            return f"{key!r} isn't of its declared type, and its text says no type"
        if key != key.strip() or any(letter in key for letter in "\n<>"):
            return f"{key!r} isn't the name of a parameter"
        for text in texts_in(value):
            if not stands(key, text, call.raw, written, nested=text is not value):
                return f"the text of {key!r} isn't in it as it was sampled"
        if isinstance(value, str) and swallows(key, value, written, atoms):
            return f"the text of {key!r} has the format's own marks of a parameter in it, and may be more than one"
    return None


def _turn(calls: Sequence[ToolCall]) -> dict[str, Any]:
    given = ((call["function"]["name"], call["function"]["arguments"], call["id"]) for call in calls)
    written = [tool_call(name, arguments, own or call_ids(at=at)[0]) for at, (name, arguments, own) in enumerate(given)]
    return {"role": "assistant", "content": "", "tool_calls": written}


def _header(call: ToolCall, arguments: str) -> str | None:
    """What of the raw text isn't name, id and arguments, where the arguments stand in it as they are; else ``None``."""
    raw, name = call.raw, call["function"]["name"]
    if raw.count(arguments) != 1 or not arguments.startswith("{"):
        return None
    raw = raw.replace(arguments, "")
    if call["id"]:
        raw = raw.replace(call["id"], "", 1)
    whole = re.compile(rf"(?<![\w-]){re.escape(call['function']['name'])}(?![\w-]|\.\w|:\w+:)")  # not as a part of another name
    if name in raw:
        raw, found = whole.subn("", raw, count=1)
        return raw if found else None
    return raw if call["id"] and whole.search(call["id"]) else None


def _is_json_call(call: ToolCall, values: Mapping[str, Any]) -> bool:
    """Whether a raw text is one JSON object that says this name and these arguments, and nothing else but its kind and id."""
    start, end = call.raw.find("{"), call.raw.rfind("}") + 1
    around = call.raw[: max(start, 0)] + call.raw[end:]
    try:
        said = json_value(call.raw[start:end]) if start >= 0 else None
    except (ValueError, RecursionError):
        return False
    if not isinstance(said, dict) or not _HEADER.fullmatch(around) or len(around) > _LONGEST_HEADER:
        return False
    arguments = [said.pop(key) for key in ("arguments", "parameters") if key in said]
    same = len(arguments) == 1 and json.dumps(arguments[0], sort_keys=True) == json.dumps(values, sort_keys=True)
    return (
        same
        and said.pop("name", None) == call["function"]["name"]
        and said.pop("type", "function") == "function"
        and not said.keys() - {"id"}
    )


def _with_json(written: str, values: Mapping[str, Any]) -> str:
    """A text that was written again, its lists and objects as JSON where they stand as Python prints them."""
    for value in values.values():
        if isinstance(value, (list, Mapping)):
            written = written.replace(str(value), json.dumps(value, ensure_ascii=False))
    return written


def _alike(raw: str, written: str, values: Mapping[str, Any]) -> bool:
    """Whether a raw text stands in what was written again; for formats that sort the keys, in another order of its pairs."""
    mine, theirs = canonical(raw), canonical(written)
    if "".join(mine) in "".join(theirs):
        return True
    counted, size = Counter(mine), len(mine)
    if not any(Counter(theirs[at : at + size]) == counted for at in range(len(theirs) - size + 1) if theirs[at] == mine[0]):
        return False
    return all(pair is not None and pair in "".join(mine) for pair in _pairs(values, "".join(theirs)))


def _pairs(values: Any, written: str) -> Iterator[str | None]:
    """Each key with its value, as the format writes them, in canonical form; ``None`` for one that isn't there."""
    if isinstance(values, list):
        for each in values:
            yield from _pairs(each, written)
    elif isinstance(values, Mapping):
        for key, value in values.items():
            if isinstance(value, (list, Mapping)):
                yield from _pairs(value, written)
                continue
            text = "".join(canonical(value if isinstance(value, str) else json.dumps(value)))
            found = re.search(re.escape("".join(canonical(key))) + r"[^\w]{1,8}" + re.escape(text), written)
            yield found.group() if found else None
