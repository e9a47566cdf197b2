"""Calls that are one JSON text each, or one JSON list of calls: ``{"name": "look", "arguments": {"q": "tea"}}``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rllm_renderer_core.normal_form.arguments import json_status
from rllm_renderer_core.types import ToolCallStatus

from ..literals import first_of
from ..probes import IDS, KEYS, NAMES, VALUES
from .attempt import Attempt, BadCall, CallStyle, Declined, Sample
from .notations import Unreadable, json_end, json_members

Path = tuple[str | int | None, ...]
"""Keys and indices into a JSON value; ``None`` is the one key there is (the name itself, in ``{"look": {...}}``)."""
_BRACKET = re.compile(r"[\[{]")
_TWINS = {"parameters": "arguments", "arguments": "parameters"}
"""Models write either key, whichever the template does (Llama 3)."""


@dataclass
class JsonCalls(CallStyle):
    """Where a call's parts stand in its JSON.

    ``calls`` is where the list of calls stands, ``None`` where the text is one call; ``name`` is ``None`` where the name is the
    only key, ``id`` where there is none.
    """

    calls: Path | None  # () in [{"name": ...}], ("tool_calls",) in {"tool_calls": [...]}
    name: Path | None  # ("name",)
    arguments: Path  # ("arguments",)
    id: Path | None  # ("id",)
    start: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        self.label = "a JSON list of calls" if self.calls is not None else "one JSON object a call"

    def starts(self, text: str, at: int) -> bool:
        return text[at : at + 1] in ("{", "[")

    def parse(self, text: str, at: int, tools: Sequence[Any] | None) -> tuple[list[Attempt], int]:
        at = len(text) - len(text[at:].lstrip())
        try:
            end = json_end(text, at)
        except Unreadable:
            raise BadCall(ToolCallStatus.INVALID_JSON) from None
        if self.calls is None:
            return [self._call(text, at, end)], end
        span = _follow(text, at, end, self.calls)
        members = json_members(text, span[0]) if span is not None and text[span[0]] == "[" else []
        if not members:
            raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
        return [self._call(text, low, high) for _, low, high in members], end

    def _call(self, text: str, at: int, end: int) -> Attempt:
        broken = Attempt("", text[at:end], None, ToolCallStatus.MALFORMED_STRUCTURE, end)
        if text[at] != "{":
            return broken
        if self.name is None:
            members = json_members(text, at)
            name: Any = members[0][0] if len(members) == 1 else None
        else:
            found = _follow(text, at, end, self.name)
            if found is not None and text[found[0]] != '"':  # a name that is a number, or anything else but text
                return Attempt("", text[at:end], None, ToolCallStatus.MISSING_NAME, end)
            name = _loaded(text, found)
        arguments, ident = self._arguments(text, at, end), None
        if name is None and arguments is not None:
            return replace(broken, status=ToolCallStatus.MISSING_NAME)
        if arguments is None or not isinstance(name, str):
            return broken
        if self.id is not None:
            ident = _loaded(text, _follow(text, at, end, self.id))
        written = text[slice(*arguments)]
        if written[:1] == '"':  # an object in a string
            written = json.loads(written)
        status = json_status(written)
        return Attempt(name, written, ident if isinstance(ident, str) else None, status, end)

    def _arguments(self, text: str, at: int, end: int) -> tuple[int, int] | None:
        """The span of the arguments: what stands under their key, or under its twin alone."""
        *before, last = self.arguments
        found = _follow(text, at, end, self.arguments)
        if last not in _TWINS:
            return found
        twin = _follow(text, at, end, (*before, _TWINS[last]))
        return (found or twin) if found is None or twin is None else None

    def span_of_next(self, text: str, low: int, sample: Sample) -> tuple[int, int]:
        value = text.index(VALUES[1], low)
        span = _around(text, low, value, value)
        if span is None:
            raise Declined("a second call isn't one JSON text like the first")
        return span

    def covers(self, text: str, at: int, word: str) -> bool:
        try:
            return self.calls is not None and json_end(text, at) > text.index(word, at)
        except Unreadable:
            return False


def learn_json_calls(sample: Sample) -> JsonCalls:
    """From a sample of one call.

    Raises:
        Declined: It isn't one JSON text, or doesn't show its name and arguments.
    """
    name, key, value = NAMES[0], KEYS[0], VALUES[0]
    slot = first_of((name, IDS[0]), sample.one, sample.low)
    assert slot is not None
    span = _around(sample.one, sample.low, slot, max(slot, sample.one.find(value, slot)))
    if span is None:
        raise Declined("a call isn't one JSON text")
    where: dict[str, Path] = {}
    for path, leaf in _leaves(json.loads(sample.one[slice(*span)])):
        if leaf == {key: value} or (isinstance(leaf, str) and leaf[:1] == "{" and json.loads(leaf) == {key: value}):
            where.setdefault("arguments", path)
        elif isinstance(leaf, str) and leaf in (name, IDS[0]):
            where.setdefault("name" if leaf == name else "id", path)
    if "arguments" not in where:
        raise Declined("a call's JSON doesn't show its arguments as one object")
    arguments = where["arguments"]
    index = next((at for at, step in enumerate(arguments) if isinstance(step, int)), None)
    keep = 0 if index is None else index + 1
    keyed = name in arguments
    if not keyed and "name" not in where:
        raise Declined("a call's JSON doesn't show its name")
    return JsonCalls(
        calls=None if index is None else arguments[:index],
        name=None if keyed else where["name"][keep:],
        arguments=tuple(None if step == name else step for step in arguments[keep:]),
        id=where["id"][keep:] if "id" in where else None,
        start=span[0],
        end=span[1],
    )


def _around(text: str, low: int, high: int, value: int) -> tuple[int, int] | None:
    """The first JSON object or list that starts between ``low`` and ``high`` and ends behind ``value``."""
    for bracket in _BRACKET.finditer(text, low, high):
        try:
            end = json_end(text, bracket.start())
        except Unreadable:
            continue
        if end > value:
            return bracket.start(), end
    return None


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from _leaves(member, (*path, key))


def _follow(text: str, at: int, end: int, path: Path) -> tuple[int, int] | None:
    """The span of what stands at a path; ``None`` where nothing does, or a key comes twice on the way."""
    for step in path:
        if text[at : at + 1] not in ("{", "["):
            return None
        members = json_members(text, at)
        found = members if step is None else [member for member in members if member[0] == step]
        if len(found) != 1:
            return None
        _, at, end = found[0]
    return at, end


def _loaded(text: str, span: tuple[int, int] | None) -> Any:
    return json.loads(text[slice(*span)], parse_int=str) if span is not None else None
