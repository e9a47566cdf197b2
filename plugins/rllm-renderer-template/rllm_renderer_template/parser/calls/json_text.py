"""Calls that are one JSON text each, or one JSON list of calls: ``{"name": "look", "arguments": {"q": "tea"}}``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rllm_renderer_core.normal_form.arguments import json_status
from rllm_renderer_core.types import ToolCallStatus

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
        found = _follow(text, at, end, self.calls)
        if found is None or text[found[0]] != "[":
            raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
        spans = json_members(text, found[0])
        if not spans:
            raise BadCall(ToolCallStatus.MALFORMED_STRUCTURE)
        return [self._call(text, low, high) for _, low, high in spans], end

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
        value = text.index(sample.values[1], low)
        for found in _BRACKET.finditer(text, low, value):
            try:
                end = json_end(text, found.start())
            except Unreadable:
                continue
            if end > value:
                return found.start(), end
        raise Declined("a second call isn't one JSON text like the first")

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
    name, key, value = sample.names[0], sample.keys[0], sample.values[0]
    slot = sample.first(name, sample.ids[0])
    assert slot is not None
    for found in _BRACKET.finditer(sample.one, sample.low, slot):
        try:
            end = json_end(sample.one, found.start())
        except Unreadable:
            continue
        if end > sample.one.index(value, slot):
            break
    else:
        raise Declined("a call isn't one JSON text")
    where: dict[str, Path] = {}
    for path, leaf in _leaves(json.loads(sample.one[found.start() : end])):
        if leaf == {key: value} or (isinstance(leaf, str) and leaf[:1] == "{" and json.loads(leaf) == {key: value}):
            where.setdefault("arguments", path)
        elif isinstance(leaf, str) and leaf in (name, sample.ids[0]):
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
        start=found.start(),
        end=end,
    )


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in members:
        yield from _leaves(each, (*path, key))


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
