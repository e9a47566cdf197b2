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
from ..literals import Unlike, atoms, pattern
from .attempt import Attempt, BadCall, CallStyle, Declined, Sample
from .notations import Reader, Unreadable, json_object, plain_keywords, python_keywords, python_object, quoted_object

_NAME, _ID = r"(?P<name>[\w.\-/:$@]+?)", r"(?P<id>[^\s\"\ud800-\udfff]+?)"


@dataclass(frozen=True)
class Head:
    """Name and id of a call, as they stand before its arguments.

    Attributes:
        pattern: A regular expression with the groups ``name`` and ``id``, as far as they are shown.
        start: Where it starts in the sample.
        name_in_id: Whether the id alone is shown, with the name in it.
    """

    pattern: str
    start: int
    name_in_id: bool

    @classmethod
    def learn(cls, sample: Sample, end: int) -> Head:
        """From what stands in the sample before its arguments, which start at ``end``.

        Raises:
            Declined: Neither a name nor an id does, or the second call's head differs.
        """
        start = sample.first(sample.names[0], sample.ids[0], high=end)
        if start is None:
            raise Declined("neither a call's name nor its id stands before its arguments")
        mine, theirs = sample.one[start:end], None
        second = sample.first(sample.names[1], sample.ids[1], text=sample.two, low=sample.two_low) if sample.two else None
        if sample.two and second is not None:
            theirs = _slots(sample.two[second:], sample.names[1], sample.ids[1])
        parts = _slots(mine, sample.names[0], sample.ids[0])
        out = []
        for at, part in enumerate(parts):
            if at % 2:
                out.append(part)
                continue
            # What stands behind the head in the second call's text, its arguments, isn't compared.
            twin = atoms(theirs[at])[: len(atoms(part))] if theirs and at < len(theirs) else atoms(part)
            try:
                out.append(pattern(part, "".join(twin) if len(twin) == len(atoms(part)) else part))
            except Unlike:
                raise Declined("the heads of two calls are written differently") from None
        # Blanks beside a control id mean nothing: models put them there, templates don't.
        return cls(CONTROL.sub(r"\\s*\g<0>", "".join(out)), start, sample.names[0] not in mine)

    def read(self, found: re.Match[str]) -> tuple[str, str | None]:
        """Name and id, from a match of the pattern."""
        groups = found.groupdict()
        name, ident = groups.get("name"), groups.get("id")
        if self.name_in_id:  # Kimi: functions.look:0
            name = re.sub(r":\d+$", "", (ident or "").removeprefix("functions."))
        return name or "", ident


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
        bracket = text.rfind(self.bracket, low, text.index(sample.keys[1], low))
        start = sample.first(sample.names[1], sample.ids[1], text=text, low=low, high=max(bracket, low))
        try:
            if start is None:
                raise Unreadable
            return start, self.reader(text, bracket)[1]
        except Unreadable:
            raise Declined("a second call isn't written like the first") from None


_LABELS = {
    "json": "a head and a JSON object",
    "quoted": "a head and an object with bare keys",
    "keywords": "a Python call",
    "plain keywords": "a Python call without escapes",
    "python": "a head and a Python dict",
}
_READERS: dict[str, Reader] = {
    "json": json_object,
    "keywords": python_keywords,
    "plain keywords": plain_keywords,
    "python": python_object,
}


def learn_headed_calls(sample: Sample, notation: str) -> HeadedCalls:
    """From a sample of one call; ``notation`` is ``json``, ``quoted``, ``keywords``, ``plain keywords`` or
    ``python``.

    Raises:
        Declined: The arguments aren't one object in this notation.
    """
    text, key, value = sample.one, sample.keys[0], sample.values[0]
    bracket = "(" if "keywords" in notation else "{"
    at = text.index(key, sample.low) if key in text[sample.low :] else -1
    start = text.rfind(bracket, sample.low, at) if at >= 0 else -1
    if start < 0:
        raise Declined("a call's arguments aren't one object")
    reader: Reader
    if notation == "quoted":
        quote = text[at + len(key) + 1 : text.index(value, at)]
        if (
            start + 1 != at
            or text[at + len(key)] != ":"
            or not quote
            or not text.startswith(quote, text.index(value, at) + len(value))
        ):
            raise Declined("a call's arguments aren't one object")
        reader = quoted_object(quote)
    else:
        reader = _READERS[notation]
    try:
        arguments, end = reader(text, start)
    except Unreadable:
        raise Declined("a call's arguments aren't one object") from None
    if not _holds(arguments, key, value):
        raise Declined("a call's arguments don't read back")
    return HeadedCalls(_LABELS[notation], Head.learn(sample, start), bracket, reader, end)


def _holds(arguments: Any, key: str, value: str) -> bool:
    return bool((json.loads(arguments) if isinstance(arguments, str) else arguments) == {key: value})
