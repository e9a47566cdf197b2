"""Stand-in words for all that a render must show, and what is said of one that it doesn't."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...errors import MessageError, RendererError, UnsupportedToolsError


@dataclass(frozen=True)
class Dropped:
    """Something that the rendered ids don't show.

    Attributes:
        what: ``"text"``, ``"call"``, ``"arguments"`` or ``"tool"``.
        index: Position of the message, or of the tool, in the list that was passed in.
        role: The message's role; empty for a tool.
        call: Position of the call within its message, for ``"call"`` and ``"arguments"``.
    """

    what: str
    index: int
    role: str = ""
    call: int = 0

    def said(self, renderer: str, message: str = "message") -> str:
        """What doesn't show, in words; ``message`` is what one is called there."""
        if self.what == "tool":
            return (
                f"tool {self.index} doesn't show in what {renderer} renders: the format, or its template, has no place for it"
            )
        names = {"text": "its text", "call": f"the name of its tool call {self.call}"}
        part = names.get(self.what, f"the arguments of its tool call {self.call}")
        return f"{message} {self.index} ({self.role}): {part} doesn't show in what {renderer} renders"

    def error(self, renderer: str) -> RendererError:
        """The error that names it, with its fix."""
        if self.what == "tool":
            return UnsupportedToolsError(self.said(renderer), fix=f"leave the tools out, {_ELSE}", index=self.index)
        fix = _FIXES.get(self.role, _FIXES[""]) if self.what == "text" else _CALL_FIX
        return MessageError(self.said(renderer), fix=f"{fix}, {_ELSE}", index=self.index)


_ELSE = "choose another renderer= or backend=, or resolve with dropped='warn' to go on without it"
_FIXES = {
    "developer": "give it the role 'system', or move its text into the first system message",
    "system": "move its text into the first message",
    "tool": "put it behind the assistant's message with its call, under that call's id",
    "": "move its text into another message",
}
_CALL_FIX = "leave the call out (a format may have one call a turn, or ids with names in them, functions.NAME:0)"


class Trial:
    """A conversation of the same shape with stand-in words, each of which stands for one thing that must show.

    Args:
        messages: In normal form; never changed.
        tools: In normal form.
        other: One of the words, which becomes another: for tokenizers that can't decode.
    """

    def __init__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, other: str | None = None) -> None:
        self.things: dict[str, Dropped] = {}
        self._other, self._words = other, 0
        self._names: dict[str, tuple[str, str, str]] = {}
        self.tools = None if tools is None else self._with_tools(tools)
        self.messages = [self._with_words(index, message) for index, message in enumerate(messages)]

    def known_by_id(self, thing: Dropped, shown: str) -> bool:
        """Whether it is a call that the format shows by its id (Kimi)."""
        if thing.what != "call":
            return False
        call_id = self.messages[thing.index]["tool_calls"][thing.call].get("id")
        return bool(call_id) and call_id.casefold() in shown  # an empty id is in any text

    def _word(self, thing: Dropped) -> str:
        letters, number = "", self._words
        for _ in range(3):
            number, digit = divmod(number, 26)
            letters = chr(ord("a") + digit) + letters
        self._words += 1
        word = f"zq{letters}x"
        self.things[word] = thing
        return word if word != self._other else "zother"

    def _with_tools(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = {(tuple(tool), tuple(tool["function"])): index for index, tool in reversed(list(enumerate(tools)))}
        out = []
        for index in sorted(first.values()):
            tool = tools[index]
            function = {**tool["function"], "name": self._word(Dropped("tool", index))}
            out.append({**tool, "function": function})
        return out

    def _with_words(self, index: int, message: dict[str, Any]) -> dict[str, Any]:
        out, role = dict(message), message["role"]
        content = message["content"]
        if content and not (isinstance(content, str) and content.isspace()):
            out["content"] = self._word(Dropped("text", index, role))
        if message.get("reasoning_content"):
            out["reasoning_content"] = "why"
        if "tool_calls" in message:
            out["tool_calls"] = [self._call(index, at, role, call) for at, call in enumerate(message["tool_calls"])]
        elif role == "tool" and message.get("tool_call_id") in self._names:
            name, given, call_id = self._names[message["tool_call_id"]]
            out["tool_call_id"] = call_id
            if message.get("name") == name:
                out["name"] = given
        return out

    def _call(self, index: int, at: int, role: str, call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        name = self._word(Dropped("call", index, role, at))
        arguments = "{}"
        if function["arguments"] != "{}":
            arguments = json.dumps({"q": self._word(Dropped("arguments", index, role, at))})
        out = {**call, "function": {**function, "name": name, "arguments": arguments}}
        if call.get("id") is not None:
            out["id"] = call["id"].replace(function["name"], name)
            self._names[call["id"]] = function["name"], name, out["id"]
        return out
