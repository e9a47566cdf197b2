"""Rows about the arguments of past calls: upstream parses them and writes JSON of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..conversion import as_json, canonical_json
from .context import Context, Messages, Row

EXPONENT = re.compile(r"[0-9][eE][-+]?[0-9]")
"""Numbers that Rust and Python write differently; in a string it does no harm to look twice."""


def _with_arguments(messages: Messages, change: Callable[[str], str]) -> Messages:
    """The messages with the argument text of each call changed."""
    return [
        {**message, "tool_calls": [_changed(call, change) for call in message["tool_calls"]]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _changed(call: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}}


def json_text(*, ascii_only: bool = False, canonical: bool = False) -> Row:
    """For formats that print one JSON object: the text as it was given, or as Python writes its value.

    Args:
        ascii_only: Upstream escapes what isn't ASCII.
        canonical: The template prints the value, not the text.
    """

    def rewrite(messages: Messages, context: Context) -> Messages:
        def change(text: str) -> str:
            value = json.loads(text)
            same = as_json(value)
            if (canonical or same == text) and not EXPONENT.search(text) and (not ascii_only or text.isascii()):
                return text
            return as_json({context.splices.hold(same if canonical else text, before='{"', after='": 0}'): 0})

        return _with_arguments(messages, change)

    return rewrite


def sorted_json(messages: Messages, context: Context) -> Messages:
    """For the format that prints one JSON object with its keys in order: as Python writes it."""

    def change(text: str) -> str:
        return canonical_json({context.splices.hold(canonical_json(json.loads(text)), before='{"', after='":0}'): 0})

    return _with_arguments(messages, change)


def printed(text_of: Callable[[Any], str]) -> Row:
    """For formats that print each argument apart: every value becomes the text that the template prints."""

    def change(text: str) -> str:
        values = json.loads(text)
        if all(isinstance(value, str) for value in values.values()):
            return text
        return as_json({name: value if isinstance(value, str) else text_of(value) for name, value in values.items()})

    return lambda messages, _: _with_arguments(messages, change)


def python(value: Any) -> str:
    """Lists and mappings as JSON; numbers, booleans and null as Jinja's ``string`` filter prints them."""
    return as_json(value) if isinstance(value, (dict, list)) else str(value)


def json_values(messages: Messages, context: Context) -> Messages:
    """For formats that mark strings: the others keep their kind and are printed as Python writes them."""

    def change(text: str) -> str:
        if not EXPONENT.search(text):
            return text
        values = {
            name: value if isinstance(value, str) else {context.splices.hold(as_json(value), before='{"', after='": 0}'): 0}
            for name, value in json.loads(text).items()
        }
        return as_json(values)

    return _with_arguments(messages, change)
