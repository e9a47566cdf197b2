"""Nothing is dropped in silence: what goes into a render shows in what comes out, or there is an error that names it.

Formats and templates leave things out without a word: a second system message, a developer's, tools in a template without
declarations, calls beyond the first, results that no call precedes. Which ones depends on the shape of a conversation (roles
and their order, blank texts, calls, which result answers which) and not on what its texts say. So each shape is tried once:
the conversation is rendered with a stand-in word for every text, call name, argument and declaration, decoded, and each word
must be there. What was found is remembered, so that a shape that is known costs one look-up.

Reasoning isn't asked for: formats drop it from the history on purpose.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import BridgeDeclined, MessageError, RendererError, UnsupportedToolsError
from ...plugin import is_probe, rendering_probes
from ...plugin.discovery import warn_once
from ...probing.shape import declared_shapes, shape_of, without_repeats

logger = logging.getLogger("rllm_renderer")

KNOWN_SHAPES = 4096
"""Shapes remembered a renderer; when there are more, all are learned again."""

Shape = tuple[Any, ...]


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


class NothingDropped:
    """The check of one renderer; may be called by many threads, which may then learn the same shape twice.

    Args:
        render_ids: The bare renderer's, called under ``lock``.
        decode: Ids to text with control tokens, or ``None`` where the tokenizer has none: then each thing is altered alone.
        name: ``backend:renderer``, for errors.
        lock: Held while rendering and decoding.
        mode: ``"error"`` or ``"warn"``.
    """

    def __init__(
        self, render_ids: Callable[..., Any], decode: Callable[..., str] | None, name: str, lock: Any, mode: str = "error"
    ) -> None:
        self._render_ids, self._decode, self._name, self._lock, self._mode = render_ids, decode, name, lock, mode
        self._known: dict[Shape, tuple[Dropped, ...]] = {}

    def after_render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool) -> None:
        """Check messages and tools in normal form, which were rendered without an error.

        Raises:
            MessageError: A message's text, or one of its calls, doesn't show; ``index`` tells which.
            UnsupportedToolsError: A declaration doesn't show.
        """
        if is_probe():
            return
        dropped = self.dropped(messages, tools, opener)
        if dropped:
            if self._mode == "error":
                raise dropped[0].error(self._name)
            warn_once(f"dropped='warn': {dropped[0].said(self._name)}", key=("dropped", self._name, str(dropped[0])))

    def after_bridge(self, new: list[dict[str, Any]], tooled: bool, added: Callable[[list[dict[str, Any]]], list[int]]) -> None:
        """Check the new messages of a bridge that was made.

        Args:
            new: In normal form.
            tooled: Whether tools are declared.
            added: What the same bridge adds to prompt and completion for other new messages.

        Raises:
            BridgeDeclined: A text doesn't show: the render of the whole conversation tells whether it can be had at all.
        """
        if is_probe():
            return
        shape = ("bridge", shape_of(new), tooled)
        known = self._known.get(shape)
        if known is None:
            known = self._kept(shape, self._tried(new, None, lambda trial: added(trial.messages)))
        if known:
            what = known[0].said(self._name, "new message")
            if self._mode == "error":
                raise BridgeDeclined(what, fix="render the whole conversation again")
            warn_once(f"dropped='warn': {what}", key=("dropped", self._name, "bridge", str(known[0])))

    def dropped(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool) -> tuple[Dropped, ...]:
        """All that isn't shown, in the order of the messages, tools first."""
        shape = (shape_of(messages), None if tools is None else declared_shapes(tools), opener)
        known = self._known.get(shape)
        if known is None:
            known = self._learned(messages, tools, opener, shape)
        return known

    def _learned(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool, shape: Shape
    ) -> tuple[Dropped, ...]:
        kept = without_repeats(shape[0])
        short = (tuple(shape[0][index] for index in kept), *shape[1:])
        known = self._known.get(short)
        if known is None:
            known = self._tried([messages[index] for index in kept], tools, lambda trial: self._rendered(trial, opener))
        self._kept(short, known)
        if len(kept) < len(messages):
            known = tuple(
                each if each.what == "tool" else Dropped(each.what, kept[each.index], each.role, each.call) for each in known
            )
            self._kept(shape, known)
        return known

    def _kept(self, shape: Shape, known: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
        if len(self._known) >= KNOWN_SHAPES:
            self._known.clear()
        self._known[shape] = known
        return known

    def _tried(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, ids_of: Callable[[Trial], list[int]]
    ) -> tuple[Dropped, ...]:
        with rendering_probes():
            try:
                trial = Trial(messages, tools)
                plain = ids_of(trial)
                if self._decode is not None:
                    shown = self._text(plain)
                    return tuple(
                        thing for word, thing in trial.things.items() if not (word in shown or trial.known_by_id(thing, shown))
                    )
                return tuple(thing for word, thing in trial.things.items() if ids_of(Trial(messages, tools, word)) == plain)
            except Exception as error:
                # The stand-in words are refused where the real texts weren't: nothing can be said of this shape.
                logger.info("%s: what it shows of this shape of conversation can't be told: %r", self._name, error)
                return ()

    def _rendered(self, trial: Trial, opener: bool) -> list[int]:
        with self._lock:
            return list(self._render_ids(trial.messages, tools=trial.tools, add_generation_prompt=opener))

    def _text(self, ids: list[int]) -> str:
        assert self._decode is not None
        with self._lock:
            return self._decode(ids, skip_special_tokens=False).casefold()


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
