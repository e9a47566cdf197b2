"""Probe turns, rendered: assistant turns behind a short history, whose parts are words that nothing else contains."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rllm_renderer_core.normal_form.ids import as_ids, common_prefix
from rllm_renderer_core.probing.calls import QUESTION, call_ids, tool_call

from .calls.attempt import Declined
from .id_text import IdText

Render = Callable[..., Sequence[int]]
"""``render(messages, tools=, add_generation_prompt=)`` to prompt ids, like ``Renderer.render_ids``."""

REASONING, CONTENT, USER = "rzqxa", "czqxb", "uzqxc"
NAMES = ("fnzqa", "fnzqb", "fnzqc")
KEYS = ("kzqa", "kzqb", "kzqc")
VALUES = ("vzqa", "vzqb")
IDS = (call_ids(at=0)[0], call_ids(at=1)[0], call_ids(at=2)[0])

_TYPES: dict[str, dict[str, Any]] = {
    **{key: {"type": "string"} for key in KEYS},
    "num": {"type": "integer"},
    "ratio": {"type": "number"},
    "flag": {"type": "boolean"},
    "none": {"type": "null"},
    "items": {"type": "array", "items": {"type": "string"}},
    "where": {"type": "object"},
}


def _tools(*without: str) -> list[dict[str, Any]]:
    """Declarations of the names; only the first with properties of all types."""
    tools = []
    for name in NAMES:
        known = _TYPES if name == NAMES[0] else (*KEYS, "num")
        properties = {key: _TYPES[key] for key in known if key not in without}
        parameters = {"type": "object", "properties": properties, "required": []}
        tools.append({"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}})
    return tools


TOOLS = _tools()
_SYSTEM = {"role": "system", "content": "Be brief."}
# What a template accepts: some refuse a conversation without a system message, some a type that they don't know, some tools.
_OPENINGS: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ([QUESTION], TOOLS),
    ([_SYSTEM, QUESTION], TOOLS),
    ([QUESTION], _tools("none")),
    ([QUESTION], None),
]


@dataclass(frozen=True)
class Form:
    """How a template wants an assistant's turn handed to it. ``reasoning`` is the message's key for it, ``"parts"`` for a part
    of the content, ``"inline"`` for text in the content, ``None`` where the template shows none."""

    reasoning: str | None = None
    inline: str = ""  # what stands between reasoning and content, where it is inline
    ids_with_names: bool = False  # call ids in the form ``functions.look:0``


class Probes:
    """Renders probe turns behind a history, each once.

    Raises:
        Declined: The renderer refuses a plain conversation.
    """

    def __init__(self, render: Render, ids: IdText) -> None:
        self._render, self.ids = render, ids
        self._cache: dict[str, list[int] | None] = {}
        self.form, self.refusal = Form(), ""
        self.end = ""  # the stop behind a turn whose render doesn't show one
        for history, self.tools in _OPENINGS:
            if self._turn_to(history):
                return
        raise Declined(f"a plain conversation is refused: {self.refusal}")

    def _turn_to(self, history: list[dict[str, Any]]) -> bool:
        self.history = history
        prompt = self.rendered([], generation_prompt=True)
        self.prompt = "" if prompt is None else self.ids.show(prompt)
        return prompt is not None

    @contextmanager
    def behind(self, history: list[dict[str, Any]]) -> Iterator[bool]:
        """Probe turns behind another history; whether it can be rendered."""
        kept = self.history, self.prompt
        try:
            yield self._turn_to(history)
        finally:
            self.history, self.prompt = kept

    def rendered(self, more: list[dict[str, Any]], *, generation_prompt: bool = False) -> list[int] | None:
        """The ids of the history and these messages; ``None`` where they are refused."""
        key = json.dumps([self.history, more, self.tools, generation_prompt])
        if key not in self._cache:
            try:
                messages, tools = copy.deepcopy((self.history + more, self.tools))
                rendered = self._render(messages, tools=tools, add_generation_prompt=generation_prompt)
                self._cache[key] = list(as_ids(rendered, "what render returned"))
            except Exception as error:
                self.refusal, self._cache[key] = " ".join(f"{type(error).__name__}: {error}".split())[:120], None
        return self._cache[key]

    def shown(self, *messages: dict[str, Any]) -> str | None:
        """The text of the history and these messages."""
        rendered = self.rendered(list(messages))
        return None if rendered is None else self.ids.show(rendered)

    def message(self, reasoning: str | None = None, content: str = "", calls: Sequence[tuple[str, Any]] = ()) -> dict[str, Any]:
        """An assistant's message in the current form; ``calls`` are names and arguments."""
        form = self.form
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if reasoning is not None and form.reasoning == "parts":
            parts = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": content}]
            message["content"] = parts if content else parts[:1]
        elif reasoning is not None and form.reasoning == "inline":
            message["content"] = reasoning + form.inline + content
        elif reasoning is not None and form.reasoning:
            message[form.reasoning] = reasoning
        if calls:
            message["tool_calls"] = [self._call(at, name, arguments) for at, (name, arguments) in enumerate(calls)]
        return message

    def _call(self, at: int, name: str, arguments: Any) -> dict[str, Any]:
        plain, with_name = call_ids(name, at)
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return tool_call(name, written, with_name if self.form.ids_with_names else plain)

    def turn(self, arguments: Sequence[dict[str, Any]], reasoning: str | None = None, content: str = "") -> str | None:
        """The text of a turn that calls the first tools, each with one of these arguments."""
        return self.shown(self.message(reasoning, content, list(zip(NAMES, arguments, strict=False))))

    def low(self, text: str) -> int:
        """Where the assistant's turn may begin in a text: how far it is the prompt, behind the last message of the history.

        Not from its start on: some templates put tools or an instruction before the last user message of a prompt alone.
        """
        at, _, shared = self._aligned(text)
        return at + shared

    def extra(self, text: str) -> str:
        """What the prompt ends with and the text doesn't show."""
        _, at, shared = self._aligned(text)
        return self.prompt[at + shared :]

    def _aligned(self, text: str) -> tuple[int, int, int]:
        """Where text and prompt go on behind the last message of the history, and how far they are the same from there on."""
        word = str(self.history[-1]["content"])
        count, at, prompts = self.prompt.count(word), 0, 0
        *before, rest = text.split(word, count)
        if count and len(before) == count:
            at, prompts = len(text) - len(rest), self.prompt.rfind(word) + len(word)
        return at, prompts, common_prefix(text[at:], self.prompt[prompts:])

    def use(self, **changes: Any) -> None:
        """Change the form."""
        self.form = replace(self.form, **changes)


def result_of(message: dict[str, Any], content: str) -> dict[str, Any]:
    """A result of the first call of an assistant's message."""
    call = message["tool_calls"][0]
    return {"role": "tool", "content": content, "name": call["function"]["name"], "tool_call_id": call["id"]}
