"""What commands read from files and stdin, and write: text, JSON, pins, conversations. What can't be is a ``BadInput``."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import click

from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.resolving.request import pin_of

from .wording import BadInput


class Talk(NamedTuple):
    """A conversation of a file: ``where`` is ``"line 3"``, or empty where it is all of its file."""

    where: str
    messages: list[Any]
    tools: list[Any] | None


def name_of(file: str) -> str:
    """What a file is called in messages."""
    return "stdin" if file == "-" else file


def read_text(file: str) -> str:
    """The text of a file; ``-`` is stdin."""
    name = name_of(file)
    if os.path.isdir(file):
        raise BadInput(f"{file} is a folder, not a JSON file")
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            return str(stream.read())
    except OSError as error:
        raise BadInput(f"can't read {name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} isn't UTF-8 text: {error.reason} at byte {error.start}") from error


def write_text(file: str, text: str) -> None:
    """Writes a command's own file."""
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise BadInput(f"can't write {file}: {error.strerror or error}") from error


def parsed(text: str, name: str) -> Any:
    """The value of JSON text, which is called ``name`` where it isn't JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{name} isn't JSON: {error}") from error


def read_pin(file: str) -> Resolution:
    """The resolution in a file, or on stdin for ``-``; what can't be read is a ``PinMismatchError``."""
    pin = pin_of(parsed(read_text(file), "stdin") if file == "-" else file)
    assert pin is not None
    return pin


def read_talks(file: str, *, by_line: bool = False) -> list[Talk]:
    """The conversation of a JSON file, or those of a JSONL file, one a line; ``-`` is stdin.

    Args:
        by_line: Each line is a conversation, even if it is the only one.
    """
    text, name = read_text(file), name_of(file)
    lines = [(f"line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not by_line and (len(lines) < 2 or not _is_json(lines[0][1])):
        return [_talk("", text, name)]
    if not lines:
        raise BadInput(f"{name} holds no conversation")
    return [_talk(where, line, f"{name}, {where}") for where, line in lines]


def _talk(where: str, text: str, name: str) -> Talk:
    value, tools = parsed(text, name), None
    if isinstance(value, dict):
        if "messages" not in value:
            raise BadInput(f'{name} holds an object without "messages"')
        value, tools = value["messages"], value.get("tools")
    if not isinstance(value, list):
        raise BadInput(f'{name} must hold a list of messages, or an object with "messages", not {type(value).__name__}')
    if not value:
        raise BadInput(f"{name} holds no message")
    if tools is not None and not isinstance(tools, list):
        raise BadInput(f"{name}: tools must be a list, not {type(tools).__name__}")
    return Talk(where, value, tools)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
        return True
    except ValueError:
        return False
