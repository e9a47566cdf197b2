"""The words of probe conversations, and made-up tool calls in the id styles that formats want.

Each word stands for one thing that a render may show, and occurs in no format by itself.
"""

from __future__ import annotations

from typing import Any

QUESTION: dict[str, Any] = {"role": "user", "content": "ping"}
ANSWER = "omega"
"""Text of an assistant's turn."""
REASONING = "alpha"
NAME, KEY, VALUE = "zulu", "yankee", "xray"
"""A tool call: the function's name, a parameter and its value."""
ARGUMENTS = f'{{"{KEY}": "{VALUE}"}}'
OTHER_ARGUMENTS = '{"whiskey": 1}'
"""Arguments of such a call, and others that have nothing in common with them."""

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Look something up.",
        "parameters": {"type": "object", "properties": {KEY: {"type": "string", "description": "what"}}, "required": [KEY]},
    },
}


def call_ids(name: str = NAME, at: int = 0) -> tuple[str, str]:
    """Ids that templates take, strictest first: nine letters and digits (Mistral), or the name and a number (Kimi)."""
    return f"call{at:05d}", f"functions.{name}:{at}"


def tool_call(name: str = NAME, arguments: str = ARGUMENTS, call_id: str = "") -> dict[str, Any]:
    """A call in normal form; ``arguments`` is JSON text."""
    return {"id": call_id or call_ids(name)[0], "type": "function", "function": {"name": name, "arguments": arguments}}
