"""The calls of a completion: blocks of namespaced tags, read by ids.

Only the reserved ids carry structure. The same letters written as ordinary text, in a value or in prose, are text. The core's
learned parser reads what this format writes as well (see the fireworks plugin), but of a broken block it keeps one attempt,
where this reader tells each broken call by its name and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.errors import ToolError
from rllm_renderer_core.normal_form.arguments import Schema
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.types import ToolCall, ToolCallStatus

from .markers import NS, Vocabulary
from .values import Element, to_value

_INVOKE = re.compile(r'<invoke name="([^"]*)">', re.DOTALL)
_MAX_DEPTH = 64
"""Deeper nesting is a runaway completion, not an argument."""


class Calls:
    """Reads content ids into text and calls.

    Attributes:
        content: Visible text outside of blocks.
        calls: Every attempt, in order.
        broken: Whether the structure was broken anywhere.
    """

    def __init__(self, vocabulary: Vocabulary, tools: Sequence[Any] | None) -> None:
        self._vocabulary = vocabulary
        self._schemas = _schemas(tools)
        self.content = ""
        self.calls: list[ToolCall] = []
        self.broken = False

    def read(self, ids: Sequence[int]) -> None:
        """Read all content ids, without reasoning and stop."""
        segments = _split(ids, self._vocabulary.ns)
        self.content = self._vocabulary.decode(segments[0])
        inside = False
        counted = 0
        at = 1
        while at < len(segments):
            segment = segments[at]
            first = segment[0] if segment else None
            if not inside and first == self._vocabulary.calls_open:
                inside, counted = True, len(self.calls)
                self._stray(segment[1:])
                at += 1
            elif inside and first == self._vocabulary.calls_close:
                inside = False
                if len(self.calls) == counted:
                    self._attempt(ToolCallStatus.MALFORMED_STRUCTURE, f"{NS}<tool_call>{NS}</tool_call>")
                tail = self._vocabulary.decode(segment[1:])
                self.content += tail if tail.strip() else ""
                at += 1
            elif self._vocabulary.decode(segment).startswith("<invoke"):
                at = self._invoke(segments, at, inside)
            elif inside:
                self._attempt(ToolCallStatus.MALFORMED_STRUCTURE, NS + self._vocabulary.decode(segment))
                at += 1
            else:
                self.broken = True
                self.content += NS + self._vocabulary.decode(segment)
                at += 1
        if inside:
            self.broken = True
            if len(self.calls) == counted:
                self._attempt(ToolCallStatus.UNCLOSED_BLOCK, f"{NS}<tool_call>")

    def _stray(self, ids: Sequence[int]) -> None:
        """Text between tags, where only whitespace belongs."""
        text = self._vocabulary.decode(ids)
        if text.strip():
            self._attempt(ToolCallStatus.MALFORMED_STRUCTURE, text)

    def _invoke(self, segments: list[list[int]], at: int, inside: bool) -> int:
        """Read one call from ``segments[at]``; returns where the next thing begins."""
        head = self._vocabulary.decode(segments[at])
        raw = NS + head
        match = _INVOKE.match(head)
        top = Element("")
        stack = [top]
        sound = inside and match is not None and not head[match.end() :].strip()
        closed = False
        for next_at in range(at + 1, len(segments)):
            segment = segments[next_at]
            if segment and segment[0] in (self._vocabulary.calls_open, self._vocabulary.calls_close):
                break
            text = self._vocabulary.decode(segment)
            if _INVOKE.match(text):
                break
            raw += NS + text
            if text.startswith("</invoke>") and (len(stack) == 1 or stack[-1].name != "invoke"):
                closed = True
                tail = text[len("</invoke>") :]
                raw = raw[: len(raw) - len(tail)]
                sound = sound and len(stack) == 1
                at = next_at
                break
            sound = sound and _step(stack, text)
            at = next_at
        if len(stack) > 1 and top.children:
            top.children.pop()  # cut off: half a value is no value
        name = match[1] if match else ""
        arguments, status = self._arguments(name, top)
        if match is None or not name:
            status = ToolCallStatus.MISSING_NAME
        elif not sound and (closed or not inside):
            status = ToolCallStatus.MALFORMED_STRUCTURE
        elif not closed:
            status = ToolCallStatus.UNCLOSED_BLOCK
        self._attempt(status, raw, name, arguments)
        if closed:
            self._stray_tail(tail, inside)
        return at + 1

    def _stray_tail(self, tail: str, inside: bool) -> None:
        if tail.strip():
            if inside:
                self._attempt(ToolCallStatus.MALFORMED_STRUCTURE, tail)
            else:
                self.content += tail

    def _arguments(self, name: str, top: Element) -> tuple[dict[str, Any], ToolCallStatus]:
        known = self._schemas is None or name in self._schemas
        status = ToolCallStatus.OK if known else ToolCallStatus.UNKNOWN_TOOL
        schema = Schema((self._schemas or {}).get(name))
        arguments = {}
        for child in top.children:
            arguments[child.name], fits = to_value(child, schema.member(child.name))
            if not fits and status is ToolCallStatus.OK:
                status = ToolCallStatus.INVALID_ARGUMENT
        return arguments, status

    def _attempt(self, status: ToolCallStatus, raw: str, name: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        self.calls.append(ToolCall(name, arguments, raw=raw, status=status))
        fine = (ToolCallStatus.OK, ToolCallStatus.INVALID_ARGUMENT, ToolCallStatus.UNKNOWN_TOOL)
        self.broken = self.broken or self.calls[-1].status not in fine


def _step(stack: list[Element], text: str) -> bool:
    """Take one tag with the text behind it; ``False`` where it doesn't fit the tags that are open."""
    current = stack[-1]
    close = f"</{current.name}>"
    if len(stack) > 1 and text.startswith(close):
        stack.pop()
        # What a schema refuses is given back as written, so each element keeps its inner text, tags included.
        stack[-1].inner += NS + f"<{current.name}>" + current.inner + NS + close
        return not text[len(close) :].strip()
    name, end, rest = text[1:].partition(">")
    if not text.startswith("<") or text.startswith("</") or not end or len(stack) > _MAX_DEPTH or current.text.strip():
        return False
    # Two arguments of one name: neither can be trusted. Items of a list all have the same.
    unique = name == "item" or all(child.name != name for child in current.children)
    element = Element(name, text=rest, inner=rest)
    current.children.append(element)
    stack.append(element)
    return unique


def _split(ids: Sequence[int], separator: int) -> list[list[int]]:
    segments: list[list[int]] = [[]]
    for token in ids:
        if token == separator:
            segments.append([])
        else:
            segments[-1].append(token)
    return segments


def _schemas(tools: Sequence[Any] | None) -> dict[str, Any] | None:
    """Parameter schemas by tool name; ``None`` where no tools are known, or those given can't be read."""
    try:
        declared = normalize_tools(tools)
    except ToolError:
        return None
    if declared is None:
        return None
    return {tool["function"]["name"]: tool["function"].get("parameters") for tool in declared}
