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
    out: list[tuple[str | int, int, int]] = []
    at = _skipped(text, at + 1)
    while text[at] != closing:
        key: str | int = len(out)
        if closing == "}":
            end = json_end(text, at)
            key = json.loads(text[at:end])
            at = _skipped(text, _skipped(text, end) + 1)
        end = json_end(text, at)
        out.append((key, at, end))
        at = _skipped(text, end)
        at = _skipped(text, at + 1) if text[at] == "," else at
    return out


def _skipped(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def python_object(text: str, at: int) -> tuple[Arguments, int]:
    """A dict as Python or JSON writes it: ``{'q': 'tea', 'hot': True}``."""
    end = _bracketed(text, at)
    value = _python(text[at:end])
    if not isinstance(value, dict):
        raise Unreadable
    return value, end


def python_keywords(text: str, at: int) -> tuple[Arguments, int]:
    """The arguments of a Python call: ``(q="tea", hot=True)``."""
    end = _bracketed(text, at)
    try:
        node = ast.parse("f" + text[at:end], mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise Unreadable from None
    if not isinstance(node, ast.Call) or node.args or any(keyword.arg is None for keyword in node.keywords):
        raise Unreadable
    return unique([(str(keyword.arg), _literal(keyword.value)) for keyword in node.keywords]), end


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
            each, at = value(text, at)
            members.append((key, each))
        return (unique(members) if closing == "}" else [each for _, each in members]), at + 1

    return read


_BARE_VALUE = re.compile(r"[^,\]}\s]+")
_BARE_KEY = re.compile(r"([^:{},\[\]]+):")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping, unless a key comes twice: then neither value can be trusted."""
    if len(dict(pairs)) < len(pairs):
        raise Unreadable
    return dict(pairs)


def python_value(text: str) -> Any:
    """A literal as Python prints it, with JSON's words for constants."""
    return _python(text.strip())


def _python(text: str) -> Any:
    try:
        return _literal(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise Unreadable from None


_WORDS = {"true": True, "false": False, "null": None}


def _literal(node: ast.AST) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        members = [(_key(key), _literal(value)) for key, value in zip(node.keys, node.values, strict=True)]
        return unique(members)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise Unreadable from None
    # Tuples, sets, bytes and complex numbers are no JSON; neither is 1e400, which Python reads as infinity.
    if not isinstance(value, (str, int, float, bool, type(None))) or value in (float("inf"), float("-inf")):
        raise Unreadable
    return value


def _key(node: ast.AST | None) -> str:
    key = _literal(node) if node is not None else None
    if not isinstance(key, str):
        raise Unreadable
    return key


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


def _refuse(word: str) -> Any:
    raise Unreadable
