"""Calls whose parameters stand between tags, one by one, as bare text: ``<parameter=q>tea</parameter>``.

What a text means is decided by the declared tool (see ``contract.arguments``), unless the format itself tells strings from
other values. A value may be a list or an object in the same tags, where those hold a control id, so that no text can spell
them (MiniMax-M3); and it may be wrapped where it has special characters (CDATA).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rllm_renderer_core.normal_form.arguments import Schema, json_value
from rllm_renderer_core.types import ToolCallStatus

from ..id_text import CONTROL
from ..literals import common_end, common_start, core, first_of, lead, pattern, trail, trimmed, until_stop
from ..probes import IDS, KEYS, NAMES, VALUES
from .attempt import Attempt, BadCall, CallStyle, Declined, Sample
from .headed import Head
from .notations import python_value

KEY = "\0"
"""Stands for the parameter's name in a closing literal."""

_KEY = r"[^\s\"\ud800-\udfff<>/][^\s\"\ud800-\udfff<>]*?"
_NUMBER = 73519
_SPECIAL = "a <b> & c\nd"


@dataclass
class TaggedCalls(CallStyle):
    """The delimiters of a call with tagged parameters. ``value_opens`` stand between name and value: two where the format tells
    strings (the first) from other values."""

    label = "text between tags for each parameter"

    head: Head  # look, its name and id
    before: str  # ">\n", between the head and the first parameter
    opening: str  # "<parameter="
    value_opens: tuple[str, ...]  # (">\n",)
    closing: str  # "\n</parameter>\n", with ``KEY`` for the parameter's name
    wrap: tuple[str, str] | None  # ("<![CDATA[", "]]>"), around a string with special characters
    item: str | None  # "item", the name of the members of a list, where values nest
    python: bool  # whether lists and objects are printed as Python does
    empty: str  # ">", what a call without parameters shows behind its head
    end: int  # where the last parameter ends in the sample

    def __post_init__(self) -> None:
        self.start, self.name_in_id, self.nests = self.head.start, self.head.name_in_id, self.item is not None
        opening = r"\s*" + pattern(core(self.opening))
        value_open = "|".join(f"(?P<kind{at}>{pattern(core(kind))})" for at, kind in enumerate(self.value_opens))
        self._parameter = re.compile(opening + r"(?P<key>" + _KEY + r")(?:" + value_open + ")")
        before = core(self.before)
        follows = pattern(before) if before else "|".join(map(pattern, filter(None, (core(self.opening), core(self.empty)))))
        self._head = re.compile(self.head.pattern + rf"(?=\s*(?:{follows}))", re.S)
        self._before = re.compile(r"\s*" + pattern(before))

    @cached_property
    def _behind(self) -> str:
        return rf"(?=\s*(?:{pattern(core(self.opening))}|{pattern(core(self.tail)) or chr(92) + 'Z'}))"

    def starts(self, text: str, at: int) -> bool:
        return self._head.match(text, at) is not None

    def span_of_next(self, text: str, low: int, sample: Sample) -> tuple[int, int]:
        end = text.index(VALUES[1], low) + len(VALUES[1])
        start = first_of((NAMES[1], IDS[1]), text, low, end)
        closing = self.closing.replace(KEY, KEYS[1])
        if start is None or not text.startswith(closing, end):
            raise Declined("a second call isn't written like the first")
        return start, end + len(closing)

    # Parsing

    def parse(self, text: str, at: int, tools: Sequence[Any] | None) -> tuple[list[Attempt], int]:
        found = self._head.match(text, at)
        if found is None:
            raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
        name, ident = self.head.read(found)
        skipped = self._before.match(text, found.end())
        members, certain, at = self._members(text, skipped.end() if skipped else found.end())
        values, status = self._typed_members(members, Schema.of_tool(tools, name))
        return [Attempt(name, values, ident, status if certain else ToolCallStatus.MALFORMED_STRUCTURE)], at

    def _members(self, text: str, at: int) -> tuple[list[tuple[str, Any]], bool, int]:
        """Parameters as kind, name and text; whether they are certain; and where the last one ends."""
        members: list[tuple[str, Any]] = []
        certain = True
        while found := self._parameter.match(text, at):
            key = found["key"]
            kind = next(index for index in range(len(self.value_opens)) if found[f"kind{index}"] is not None)
            value: Any
            if self.item is not None and self._parameter.match(text, found.end()):
                value, fine, end = self._members(text, found.end())
                closed = re.compile(r"\s*" + pattern(core(self._closing(key)))).match(text, end)
                if closed is None:
                    raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
                at = closed.end()
            else:
                value, wrapped, at = self._text(text, found.end(), key)
                kind = 0 if wrapped else kind
                fine = not self._tagged(value, self._closing(key))
            members.append((key, (kind, value)))
            certain = certain and fine
        return members, certain, at

    def _text(self, text: str, at: int, key: str) -> tuple[str, bool, int]:
        """A value's text, whether it was wrapped, and where its closing literal ends."""
        closing = self._closing(key)
        if self.wrap is not None and text.startswith(self.wrap[0], at):
            found = re.compile(re.escape(self.wrap[1]) + pattern(core(closing)) + self._behind).search(text, at)
            if found is not None:
                return text[at + len(self.wrap[0]) : found.start()], True, found.end()
        behind = "" if self.item is not None else self._behind
        found = re.compile(pattern(core(closing)) + behind).search(text, at)
        if found is None:
            raise BadCall(ToolCallStatus.UNCLOSED_BLOCK)
        return trimmed(text[at : found.start()], trail(self.value_opens[0]), lead(closing)), False, found.end()

    def _tagged(self, written: str, closing: str) -> bool:
        """Whether tags of the format stand in a value as the format writes them: what was meant can't be told then.

        Where it writes them on lines of their own, the same tags in the middle of a line are text.
        """
        close, lines = core(closing), lead(closing) == trail(self.value_opens[0]) == "\n"
        if not lines:
            return close in written or self._parameter.search(written) is not None
        if f"\n{close}" in written or f"{close}\n" in written or written.endswith(close):
            return True
        return any(
            written[: tag.start()].rstrip(" ")[-1:] in ("", "\n") or written[tag.end() :].lstrip(" ")[:1] in ("", "\n")
            for tag in self._parameter.finditer(written)
        )

    def _closing(self, key: str) -> str:
        return self.closing.replace(KEY, key)

    # Typing

    def _typed_members(self, members: list[tuple[str, Any]], schema: Schema) -> tuple[dict[str, Any], ToolCallStatus]:
        values: dict[str, Any] = {}
        all_fit = True
        for key, (kind, written) in members:
            values[key], fits = self._typed(written, kind, schema.member(key))
            all_fit = all_fit and fits
        if len(values) < len(members):
            return values, ToolCallStatus.MALFORMED_STRUCTURE
        return values, ToolCallStatus.OK if all_fit else ToolCallStatus.INVALID_ARGUMENT

    def _typed(self, written: Any, kind: int, schema: Schema) -> tuple[Any, bool]:
        if not isinstance(written, str):
            return self._typed_container(written, schema)
        if len(self.value_opens) > 1:
            if kind == 0:
                return written, schema.accepts(written)
            try:
                value = json_value(written)
            except (ValueError, RecursionError):
                return written, False
            return (value, True) if schema.accepts(value) else (written, False)
        value, fits = schema.typed(written)
        others: list[Any] = [{}, []] if self.item is not None and not written else []
        if self.python and not fits:
            with suppress(ValueError):
                others.insert(0, json.loads(json.dumps(python_value(written))))
        others = [other for other in others if schema.accepts(other)]
        return (value, True) if fits else (others[0], True) if others else (written, False)

    def _typed_container(self, members: list[tuple[str, Any]], schema: Schema) -> tuple[Any, bool]:
        if all(key == self.item for key, _ in members):
            typed = [self._typed(written, kind, schema.items()) for _, (kind, written) in members]
            items = [value for value, _ in typed]
            if schema.accepts(items):
                return items, all(fits for _, fits in typed)
        values, status = self._typed_members(members, schema)
        return values, status is ToolCallStatus.OK and schema.accepts(values)


def learn_tagged_calls(sample: Sample, turn: Callable[[dict[str, Any]], str | None], stops: frozenset[str]) -> TaggedCalls:
    """From a sample of one call, and ``turn``, which renders one of the same tool with other arguments.

    Raises:
        Declined: The parameters aren't written one by one between tags.
    """
    text, low, (key, other, _), (value, second) = sample.one, sample.low, KEYS, VALUES
    at, behind = text.find(key, low), text.find(value, low)
    if not 0 <= at < behind:
        raise Declined("a call shows a value before its key")
    head_end = max((text.rfind(word, low, at) + len(word) for word in (NAMES[0], IDS[0]) if word in text[low:at]), default=0)
    if not head_end:
        raise Declined("neither a call's name nor its id stands before its arguments")
    two, none = turn({key: value, other: second}), turn({})
    shows_id_alone = NAMES[0] not in text[low:]
    if two is None or none is None or other not in two[low:] or not (shows_id_alone or NAMES[0] in none[low:]):
        raise Declined("the template refuses a call with two arguments, or with none")
    between = two[two.index(value, low) + len(value) : two.index(other, low)]
    before = text[head_end:at]
    opening = common_end([before, between])
    closing = common_start([between[: len(between) - len(opening)], text[behind + len(value) :]])
    value_opens = [text[at + len(key) : behind]]
    number = turn({key: _NUMBER})
    if number and str(_NUMBER) in number[low:]:
        value_opens.append(number[number.index(key, low) + len(key) : number.index(str(_NUMBER), low)])
        value_opens = value_opens[: 1 + (core(value_opens[0]) != core(value_opens[1]))]
    if not core(closing) or not core(opening):
        raise Declined("a call's arguments have no tags that open and close each")
    if any(word in literal for word in (key, other, NAMES[0]) for literal in (closing.replace(key, KEY), *value_opens)):
        raise Declined("a call's name or another parameter stands in a parameter's tags")
    shown = none.find(NAMES[0], low)
    rests = [until_stop(text[behind + len(value) + len(closing) :], stops)[0].strip()]
    if shown >= 0:
        rests.append(until_stop(none[shown + len(NAMES[0]) :], stops)[0].strip())
    listed = turn({key: ["vzq1", {other: 2}]})
    return TaggedCalls(
        head=Head.learn(sample, head_end),
        before=before[: len(before) - len(opening)],
        opening=opening,
        value_opens=tuple(value_opens),
        closing=closing.replace(key, KEY),
        wrap=_wrap(turn({key: _SPECIAL}), low, value_opens[0], closing),
        item=_nested(low, turn, opening, value_opens[0]),
        python=bool(listed and f"['vzq1', {{'{other}': 2}}]" in listed[low:]),
        empty=common_start(rests),
        end=behind + len(value) + len(closing),
    )


def _wrap(shown: str | None, low: int, kind: str, closing: str) -> tuple[str, str] | None:
    """What stands around a value with special characters, between its tags."""
    if shown is None or _SPECIAL not in shown[low:]:
        return None
    at = shown.index(_SPECIAL, low)
    before, behind = shown[:at].rpartition(kind)[2], shown[at + len(_SPECIAL) :].partition(core(closing))[0]
    return (before, behind) if core(before) and core(behind) and len(before) + len(behind) < 64 else None


def _nested(low: int, turn: Callable[[dict[str, Any]], str | None], opening: str, kind: str) -> str | None:
    """The name of a list's members, where lists and objects are written in the same tags, which hold a control id."""
    (key, other, _), (one, two) = KEYS, VALUES
    inner, listed = turn({key: {other: two}}), turn({key: [one, two]})
    if not CONTROL.search(opening) or inner is None or listed is None:
        return None
    if opening + other + kind + two not in inner[low:] or kind + one not in listed[low:]:
        return None
    name = listed[: listed.index(kind + one, low)].rpartition(core(opening))[2]
    return name if re.fullmatch(r"\w+", name) else None
