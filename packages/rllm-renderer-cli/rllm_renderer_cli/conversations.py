"""Conversations of a user's own file: JSONL, one a line."""

from __future__ import annotations

import json
from typing import Any

import click
from rllm_renderer_template.parity.probes import Probe

from .wording import BadInput


def read_conversations(file: str) -> tuple[Probe, ...]:
    """Each line of a JSONL file (``-`` is stdin) as a conversation to compare, blank lines left out.

    A conversation that ends with an assistant's message is rendered as it is, any other with the opener of the next turn.
    """
    out = []
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    out.append(_probe(f"line {number}", line, file))
    except OSError as error:
        raise BadInput(f"can't read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} isn't UTF-8 text: {error.reason} at byte {error.start}") from error
    if not out:
        raise BadInput(f"{file} holds no conversation")
    return tuple(out)


def _probe(name: str, line: str, file: str) -> Probe:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{file}, {name} isn't JSON: {error}") from error
    messages, tools = (value.get("messages"), value.get("tools")) if isinstance(value, dict) else (value, None)
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise BadInput(f'{file}, {name} must be a list of messages, or an object with "messages"')
    if tools is not None and not isinstance(tools, list):
        raise BadInput(f"{file}, {name}: tools must be a list")
    return Probe(name, tuple(messages), messages[-1].get("role") != "assistant", tools or None)
