"""Calls whose name stands before their arguments: a head, then one object in some notation (``look{"q": "tea"}``)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.normal_form.arguments import json_status
from rllm_renderer_core.types import ToolCallStatus

from ..id_text import CONTROL
from ..literals import Unlike, atoms, first_of, pattern
from ..probes import IDS, KEYS, NAMES, VALUES
from .attempt import Attempt, BadCall, CallStyle, Declined, Sample
from .notations import Reader, Unreadable, json_object, plain_keywords, python_keywords, python_object, quoted_object

_NAME, _ID = r"(?P<name>[\w.\-/:$@]+?)", r"(?P<id>[^\s\"\ud800-\udfff]+?)"


@dataclass(frozen=True)
class Head:
    """Name and id of a call, as they stand before its arguments."""

    pattern: str  # a regular expression with the groups ``name`` and ``id``, as far as they are shown
    start: int  # in the sample
    name_in_id: bool  # whether the id alone is shown, with the name in it

    @classmethod
    def learn(cls, sample: Sample, end: int) -> Head:
        """From what stands in the sample before its arguments, which start at ``end``.

        Raises:
            Declined: Neither a name nor an id does, or the second call's head differs.
        """
        start = first_of((NAMES[0], IDS[0]), sample.one, sample.low, end)
        if start is None:
            raise Declined("neither a call's name nor its id stands before its arguments")
        mine, theirs, written = sample.one[start:end], [""], ""
        second = first_of((NAMES[1], IDS[1]), sample.two, sample.two_low) if sample.two else None
        if sample.two and second is not None:
            theirs = _slots(sample.two[second:], NAMES[1], IDS[1])
        for at, part in enumerate(_slots(mine, NAMES[0], IDS[0])):
            # What stands behind the head in the second call's text, its arguments, isn't compared.
            size, twin = len(atoms(part)), atoms(theirs[at] if at < len(theirs) else "")
            try:
                written += part if at % 2 else pattern(part, "".join(twin[:size]) if len(twin) >= size else part)
            except Unlike:
                raise Declined("the heads of two calls are written differently") from None
        # Blanks beside a control id mean nothing: models put them there, templates don't.
        return cls(CONTROL.sub(r"\\s*\g<0>", written), start, NAMES[0] not in mine)

    def read(self, found: re.Match[str]) -> tuple[str, str | None]:
        """Name and id, from a match of the pattern."""
        groups = found.groupdict("")
        ident = groups.get("id")
        if self.name_in_id:  # Kimi: functions.look:0
            return re.sub(r":\d+$", "", (ident or "").removeprefix("functions.")), ident
        return groups.get("name", ""), ident


def _slots(text: str, name: str, ident: str) -> list[str]:
    """The text around name and id, with their groups in between; a second showing of either must equal the first."""
    for word, group in ((name, _NAME), (ident, _ID)):
        label = group[4 : group.index(">")]
        text = text.replace(word, f"\0{group}\0", 1).replace(word, f"\0(?P={label})\0")
    return text.split("\0")


@dataclass
class HeadedCalls(CallStyle):
    """A head, then an object that ``reader`` reads, which starts with ``bracket``."""

    label: str
    head: Head
    bracket: str
    reader: Reader
    end: int

    def __post_init__(self) -> None:
        self.start, self.name_in_id = self.head.start, self.head.name_in_id
        self._pattern = re.compile(self.head.pattern + r"\s*(?=" + re.escape(self.bracket) + ")", re.S)

    def starts(self, text: str, at: int) -> bool:
        return self._pattern.match(text, at) is not None

    def parse(self, text: str, at: int, tools: Sequence[Any] | None) -> tuple[list[Attempt], int]:
        found = self._pattern.match(text, at)
        if found is None:
            raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
        try:
            arguments, end = self.reader(text, found.end())
        except Unreadable:
            raise BadCall(ToolCallStatus.INVALID_JSON) from None
        status = json_status(arguments) if isinstance(arguments, str) else ToolCallStatus.OK
        name, ident = self.head.read(found)
        return [Attempt(name, arguments, ident, status)], end

    def span_of_next(self, text: str, low: int, sample: Sample) -> tuple[int, int]:
        bracket = text.rfind(self.bracket, low, text.index(KEYS[1], low))
        start = first_of((NAMES[1], IDS[1]), text, low, max(bracket, low))
        try:
            if start is None:
                raise Unreadable
            return start, self.reader(text, bracket)[1]
        except Unreadable:
            raise Declined("a second call isn't written like the first") from None


_NOTATIONS: dict[str, tuple[str, Reader | None]] = {
    "json": ("a head and a JSON object", json_object),
    "quoted": ("a head and an object with bare keys", None),  # its reader depends on the quote
    "keywords": ("a Python call", python_keywords),
    "plain keywords": ("a Python call without escapes", plain_keywords),
    "python": ("a head and a Python dict", python_object),
}


def learn_headed_calls(sample: Sample, notation: str) -> HeadedCalls:
    """From a sample of one call; ``notation`` is one of ``_NOTATIONS``.

    Raises:
        Declined: The arguments aren't one object in this notation.
    """
    text, key, value = sample.one, KEYS[0], VALUES[0]
    bracket = "(" if "keywords" in notation else "{"
    at = text.find(key, sample.low)
    start = text.rfind(bracket, sample.low, at) if at >= 0 else -1
    label, reader = _NOTATIONS[notation]
    try:
        if start < 0:
            raise Unreadable
        if reader is None:
            shown = text.index(value, at)
            quote = text[at + len(key) + 1 : shown]
            if start + 1 != at or text[at + len(key)] != ":" or not quote or not text.startswith(quote, shown + len(value)):
                raise Unreadable
            reader = quoted_object(quote)
        arguments, end = reader(text, start)
    except Unreadable:
        raise Declined("a call's arguments aren't one object") from None
    if (json.loads(arguments) if isinstance(arguments, str) else arguments) != {key: value}:
        raise Declined("a call's arguments don't read back")
    return HeadedCalls(label, Head.learn(sample, start), bracket, reader, end)
