"""Conversations of every kind, well formed or not, drawn by a seed; each text and name has a word that nothing else has."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

BLANKS = ("", " ", "\n", "\n\n", "\t \n", "\u00a0")
EDGES = ("", " ", "\n", "\n\n", "  \n")
FILLINGS = ("", "Größe 日本", "😀", "a\n\nb", "x < y && z", '"quoted" \\ {"k": [1]}', "None", "{{ x }}", "- a\n- b")
IDS = ("call_{n}", "functions.{name}:{n}", "{n}", "tooluse_{n}-é", "call {n}", "{name}", "")
SHOWN = "word{n}x"


@dataclass
class Conversation:
    """A conversation, its declarations, and what must be found in the render's text, as words."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    opener: bool
    words: list[str] = field(default_factory=list)
    by_id: dict[str, str] = field(default_factory=dict)
    """The ids of calls by the words that are their names: a format may show a call by its id (Kimi)."""


class _Draw:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = 0
        self.words: list[str] = []
        self.by_id: dict[str, str] = {}
        self.open: list[tuple[str, str | None]] = []

    def word(self) -> str:
        self.count += 1
        word = SHOWN.format(n=self.count)
        self.words.append(word)
        return word

    def text(self) -> Any:
        draw = self.draw
        if draw.random() < 0.15:
            return draw.choice([*BLANKS, None, []])
        text = f"{draw.choice(EDGES)}{draw.choice(FILLINGS)} {self.word()} {draw.choice(FILLINGS)}{draw.choice(EDGES)}"
        if draw.random() < 0.15:
            half = len(text) // 2
            parts = [text] if draw.random() < 0.5 or "word" in text[half - 8 : half + 8] else [text[:half], text[half:]]
            return [{"type": "text", "text": each} for each in parts]
        return text

    def call(self, at: int) -> dict[str, Any]:
        draw = self.draw
        name = draw.choice(["look", "count", "größe_3", "a-b", "x.y"]) if draw.random() < 0.9 else self.word()
        arguments: Any = {} if draw.random() < 0.2 else {"q": self.word(), "n": draw.choice([1, None, True, [1.5], {"k": "v"}])}
        given = json.dumps(arguments, ensure_ascii=False) if draw.random() < 0.7 else arguments
        call_id = draw.choice(IDS).format(n=self.count + at, name=name) if draw.random() < 0.85 else None
        self.open.append((name, call_id))
        if name in self.words and call_id:
            self.by_id[name] = call_id
        function = {"name": name, "arguments": given}
        out: dict[str, Any] = {"type": "function", "function": function} if draw.random() < 0.8 else dict(function)
        return out if call_id is None else {**out, "id": call_id}

    def message(self) -> dict[str, Any]:
        draw = self.draw
        role = draw.choices(["system", "developer", "user", "assistant", "tool"], [1, 1, 4, 4, 3])[0]
        out: dict[str, Any] = {"role": role}
        content = self.text()
        if content is not None or draw.random() < 0.5:
            out["content"] = content
        if role == "assistant":
            if draw.random() < 0.3:
                out["reasoning_content"] = draw.choice(["", "why", "\nwhy\n", "  ", "a\n\nb"])
            if draw.random() < 0.45:
                out["tool_calls"] = [self.call(at) for at in range(draw.choice([1, 1, 2, 3]))]
        if role == "tool":
            known = bool(self.open) and draw.random() < 0.8
            name, call_id = self.open.pop(0) if known else ("look", draw.choice(["call_99", "functions.look:9", None, ""]))
            if call_id is not None and draw.random() < 0.9:
                out["tool_call_id"] = call_id
            if draw.random() < 0.5:
                out["name"] = name
        return out

    def tool(self) -> dict[str, Any]:
        properties = {"q": {"type": "string", "description": "what"}, "n": {}}
        function = {"name": self.word(), "description": "Does é.", "parameters": {"type": "object", "properties": properties}}
        return {"type": "function", "function": function}


def conversation(seed: int) -> Conversation:
    """The conversation of a seed."""
    state = _Draw(seed)
    draw = state.draw
    tools = [state.tool() for _ in range(draw.choice([1, 2]))] if draw.random() < 0.5 else None
    messages = [state.message() for _ in range(draw.choice([1, 2, 2, 3, 4, 5, 7, 9]))]
    if draw.random() < 0.6:  # a beginning that most formats take
        first = [{"role": "system", "content": f"Be {state.word()}."}] if draw.random() < 0.5 else []
        messages = [*first, {"role": "user", "content": f"How {state.word()}?"}, *messages]
    return Conversation(messages, tools, draw.random() < 0.7, state.words, state.by_id)
