"""How a format writes calls, kept by their shape: whether a raw text is, letter by letter, what a call's arguments give.

A shape is the keys of a call with the kinds of their values. Seen for the second time, it is rendered once, with marks as name
and values; from then on a call of that shape is written by putting its own into their places, without a render. Only formats
that write each argument between tags are kept, and only values that can't be written in two ways: no text that looks like
another value, none with letters that the format escapes. About any other call the answer is that nothing is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...normal_form.arguments import json_value
from ...types import ToolCall

_SHAPES = 512
"""More shapes than this are forgotten: a model may make up keys without end."""
_NAME = re.compile(r"\w[\w.-]*")
_NASTY = "a \"b\" 'c' \\d\\n &amp; {e} [f] |g=h,\n  i"
_ESCAPED = frozenset("\"'\\&{}[]|=,\n")
"""Letters that a format may escape, or write around values: a value has them only where ``_NASTY`` is written as it is."""
_NEVER = re.compile("[<>\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff]")
_LONGEST_CLOSE = 64
_MARKED = "zq9name"
_WORDS = ("true", "false", "null")


@dataclass(frozen=True)
class _Shape:
    """The texts of a render around name and values, and which of them stands in which place: 0 the name, 1 the first value."""

    around: tuple[str, ...]
    order: tuple[int, ...]
    close: str

    def gives(self, parts: Sequence[str], raw: str) -> bool:
        """Whether a raw text is this shape with these parts, from the name or before it to the last value's close at least."""
        inner = [text for at, place in enumerate(self.order) for text in (self.around[at], parts[place])]
        start = raw.find(middle := "".join(inner[1:]))
        if start < 0:
            return False
        behind = raw[start + len(middle) :]
        return behind.startswith(self.close) and self.around[-1].startswith(behind) and self.around[0].endswith(raw[:start])


class WrittenCalls:
    """Texts of calls by shape, for one renderer.

    Args:
        write: Calls to a text that has them, by a render; ``None`` where it refuses them.
    """

    def __init__(self, write: Callable[[Sequence[ToolCall]], str | None]) -> None:
        self._write = write
        self._shapes: dict[Any, _Shape | None] = {}

    def same(self, call: ToolCall, values: Mapping[str, Any]) -> bool:
        """Whether the call's raw text is known to be what the format writes for its name and arguments."""
        shape = tuple((key, _kind(value)) for key, value in values.items())
        if call.id is not None or not shape or not _NAME.fullmatch(call.name):
            return False
        if shape not in self._shapes:
            # The caller renders this one: a shape that may never come again isn't worth a second render.
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            self._shapes[shape] = _UNKNOWN
            return False
        if self._shapes[shape] is _UNKNOWN:
            self._shapes[shape] = self._learn(shape)
        known = self._shapes[shape]
        if known is None:
            return False
        parts = [self._part(value) for value in values.values() if _kind(value) not in _WORDS]
        return None not in parts and known.gives([call.name, *map(str, parts)], call.raw.strip())

    def _part(self, value: Any) -> str | None:
        """A value as it must stand in the text; ``None`` where it may be written in another way."""
        if not isinstance(value, str):
            return None if isinstance(value, (list, dict)) else json.dumps(value)
        if not value or value != value.strip() or _NEVER.search(value) or _is_value(value):
            return None
        return value if _ESCAPED.isdisjoint(value) or self._verbatim else None

    @cached_property
    def _verbatim(self) -> bool:
        """Whether texts are written as they are, whatever they have in them but tags."""
        return _NASTY in (self._write([ToolCall("look", {"q": _NASTY})]) or "")

    def _learn(self, shape: tuple[tuple[str, str], ...]) -> _Shape | None:
        if not all(_NAME.fullmatch(key) for key, _ in shape) or any(kind == "other" for _, kind in shape):
            return None
        marks = {key: _mark(kind, at) for at, (key, kind) in enumerate(shape)}
        written = self._write([ToolCall(_MARKED, marks)]) or ""
        parts = [_MARKED, *(str(mark) for (_, kind), mark in zip(shape, marks.values(), strict=True) if kind not in _WORDS)]
        if any(written.count(part) != 1 for part in parts):
            return None
        around, at = [], 0
        places = sorted((written.index(part), place) for place, part in enumerate(parts))
        for start, place in places:
            around.append(written[at:start])
            at = start + len(parts[place])
        close = written[at : written.find(">", at) + 1]
        if places[0][1] != 0 or not 0 < len(close) <= _LONGEST_CLOSE or not all("<" in text for text in (*around, close)):
            return None
        return _Shape((*around, written[at:]), tuple(place for _, place in places), close)


_UNKNOWN = _Shape((), (), "")


def _kind(value: Any) -> str:
    """What a value is written like: of words each is a kind of its own."""
    if isinstance(value, str):
        return "text"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return "integer" if isinstance(value, int) else "float" if isinstance(value, float) else "other"


def _mark(kind: str, at: int) -> Any:
    """A value of this kind that nothing else in a text equals."""
    return {"text": f"zq9v{at:03d}", "integer": 719300 + at, "float": 719300.5 + at, "true": True, "false": False}.get(kind)


def _is_value(text: str) -> bool:
    """Whether a text looks like a value of another type."""
    try:
        json_value(text.lower().replace("none", "null"))
    except (ValueError, RecursionError):
        return False
    return True
