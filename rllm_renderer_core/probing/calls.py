"""Made-up tools and calls for probe conversations."""

from __future__ import annotations

from typing import Any

NAME, VALUE, ANSWER = "look_zq", "zq9", "pong"
# Kimi's templates show the id alone, which has the name in it; Mistral's take nine letters and digits.
IDS = (f"functions.{NAME}:0", "lookzq000")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Look something up.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string", "description": "what"}}, "required": ["q"]},
    },
}
QUESTION: dict[str, Any] = {"role": "user", "content": "ping"}
