"""The notations in which formats write a call's arguments as one object. A reader takes a text and where the object starts.

It returns the arguments and where they end: JSON as the very text that was written, any other notation as a mapping. It raises
``Unreadable`` where no object stands there.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

Arguments = dict[str, Any] | str
"""A mapping, or JSON text as it was written."""
Reader = Callable[[str, int], tuple[Arguments, int]]


class Unreadable(ValueError):
    """No object of this notation stands here."""


_BLANK = re.compile(r"[ \t\n\r]*")
# Numbers stay text here: what JSON can't hold is found out later, with a status of its own.
_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def json_end(text: str, at: int) -> int:
    """Where the JSON value ends that starts here."""
    try:
        return _SCANNER.raw_decode(text, at)[1]
    except (ValueError, RecursionError, IndexError):
        raise Unreadable from None


def json_object(text: str, at: int) -> tuple[str, int]:
    """A JSON object, as it is written."""
    end = json_end(text, at)
    return text[at:end], end


def json_members(text: str, at: int) -> list[tuple[str | int, int, int]]:
    """Key (or index), start and end of each member of the JSON object or list that starts here; keys may come twice."""
    closing = {"{": "}", "[": "]"}[text[at]]
    members: list[tuple[str | int, int, int]] = []
    at = _skipped(text, at + 1)
    while text[at] != closing:
        key: str | int = len(members)
        if closing == "}":
            end = json_end(text, at)
            key = json.loads(text[at:end])
            at = _skipped(text, _skipped(text, end) + 1)
        end = json_end(text, at)
        members.append((key, at, end))
        at = _skipped(text, end)
        at = _skipped(text, at + 1) if text[at] == "," else at
    return members


def _skipped(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def python_object(text: str, at: int) -> tuple[Arguments, int]:
    """A dict as Python or JSON writes it: ``{'q': 'tea', 'hot': True}``."""
    end = _bracketed(text, at)
    value = python_value(text[at:end])
    if not isinstance(value, dict):
        raise Unreadable
    return value, end


def python_keywords(text: str, at: int) -> tuple[Arguments, int]:
    """The arguments of a Python call: ``(q="tea", hot=True)``."""
    end = _bracketed(text, at)
    node = _parsed("f" + text[at:end])
    if not isinstance(node, ast.Call) or node.args or any(keyword.arg is None for keyword in node.keywords):
        raise Unreadable
    return _unique([(str(keyword.arg), _literal(keyword.value)) for keyword in node.keywords]), end


def plain_keywords(text: str, at: int) -> tuple[Arguments, int]:
    """The same where the template escapes nothing: what a backslash means there can't be told."""
    arguments, end = python_keywords(text, at)
    if "\\" in text[at:end]:
        raise Unreadable
    return arguments, end


def quoted_object(quote: str) -> Reader:
    """Reads an object with bare keys, and strings between a quote of the format's own, as Gemma 4 writes it."""

    def read(text: str, at: int) -> tuple[Arguments, int]:
        try:
            found, end = value(text, at)
        except (ValueError, IndexError, RecursionError):
            raise Unreadable from None
        if not isinstance(found, dict):
            raise Unreadable
        return found, end

    def value(text: str, at: int) -> tuple[Any, int]:
        if text.startswith(quote, at):
            end = text.index(quote, at + len(quote))
            return text[at + len(quote) : end], end + len(quote)
        if text[at] not in "{[":
            word = _BARE_VALUE.match(text, at)
            if word is None:
                raise Unreadable
            return json.loads(word[0], parse_constant=_refuse), word.end()
        closing, at = {"{": "}", "[": "]"}[text[at]], at + 1
        members: list[tuple[str, Any]] = []
        while not text.startswith(closing, at):
            if members:
                if text[at] != ",":
                    raise Unreadable
                at += 1
            key = ""
            if closing == "}":
                name = _BARE_KEY.match(text, at)
                if name is None:
                    raise Unreadable
                key, at = name[1], name.end()
            member, at = value(text, at)
            members.append((key, member))
        return (_unique(members) if closing == "}" else [member for _, member in members]), at + 1

    return read


_BARE_VALUE = re.compile(r"[^,\]}\s]+")
_BARE_KEY = re.compile(r"([^:{},\[\]]+):")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping, unless a key comes twice: then neither value can be trusted."""
    if len(dict(pairs)) < len(pairs):
        raise Unreadable
    return dict(pairs)


def _refuse(word: str) -> Any:
    raise Unreadable


def python_value(text: str) -> Any:
    """A literal as Python prints it, with JSON's words for constants."""
    try:
        return _literal(_parsed(text.strip()))
    except RecursionError:
        raise Unreadable from None


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise Unreadable from None


_WORDS = {"true": True, "false": False, "null": None}


def _literal(node: ast.AST) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if not all(isinstance(key, str) for key in keys):
            raise Unreadable
        return _unique([(str(key), _literal(value)) for key, value in zip(keys, node.values, strict=True)])
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise Unreadable from None
    # Tuples, sets, bytes and complex numbers are no JSON; neither is 1e400, which Python reads as infinity.
    if not isinstance(value, (str, int, float, bool, type(None))) or value in (float("inf"), float("-inf")):
        raise Unreadable
    return value


def _bracketed(text: str, at: int) -> int:
    """Where the bracket that opens here is closed; brackets in quotes don't count."""
    depth, quote = 0, ""
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise Unreadable
