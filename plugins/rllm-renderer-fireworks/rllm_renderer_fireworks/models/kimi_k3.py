"""Kimi-K3's completions: elements between control ids, ``<|open|>name attributes<|sep|> ... <|close|>name<|sep|>``.

Source: the cookbook's ``kimi_k3``, whose own parser gives up on a completion without the close of the message and hands calls
over in another shape. Its render shows no call either, so that none can be learned. Control ids alone carry structure; the
same letters as ordinary text are text.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rllm_renderer_core.normal_form.arguments import json_value
from rllm_renderer_core.normal_form.tokenizer import added_tokens
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import ParsedResponse, Termination, ToolCall, ToolCallStatus

from .whole import WholeRenderer

_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_CONTROL = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")


@dataclass(frozen=True)
class _Piece:
    """One tag or one text: ``kind`` is ``"open"``, ``"close"``, ``"text"``, ``"cut"`` (a tag without its end) or ``"end"``."""

    kind: str
    text: str
    raw: str


class KimiK3Renderer(WholeRenderer):
    """The adapter over the cookbook's Kimi-K3 with a parser of its own."""

    @property
    def _has_controls(self) -> bool:
        return set(_CONTROL) <= set(added_tokens(self._tokenizer))

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion; never raises. The prompt tells which element it begins in."""
        if not self._has_controls:
            return super().parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)
        inside = ""
        for piece in self._pieces(list(prompt_ids or ())[-64:]):
            inside = piece.text if piece.kind == "open" else "" if piece.kind in ("close", "end") else inside
        return _read(self._pieces(list(token_ids)), inside if inside in ("think", "response") else "")

    @property
    def traits(self) -> RendererTraits:
        """As ``TinkerRenderer``'s, with the calls as the model writes them."""
        if not self._has_controls:
            return replace(super().traits, written_calls=self.written_calls)
        return replace(super().traits, written_calls=self.written_calls, why_no_tool_calls=lambda: None)

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        """The calls as the format writes them; for the core, which compares them with what was sampled."""
        out = []
        for number, call in enumerate(calls, 1):
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            written = "".join(
                f'<|open|>argument key="{html.escape(key)}" type="{_type(value)}"<|sep|>'
                f"{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}<|close|>argument<|sep|>"
                for key, value in arguments.items()
            )
            opening = f'<|open|>call tool="{html.escape(call.name)}" index="{number}"<|sep|>'
            out.append(f"{opening}{written}<|close|>call<|sep|>")
        return "".join(out)

    def _pieces(self, ids: list[int]) -> list[_Piece]:
        opened, closed, sep, end = (added_tokens(self._tokenizer)[text] for text in _CONTROL)
        out: list[_Piece] = []
        at = 0
        while at < len(ids):
            until = at + 1
            if ids[at] in (opened, closed):
                while until < len(ids) and ids[until] not in (opened, closed, sep, end):
                    until += 1
                whole = until < len(ids) and ids[until] == sep
                kind = ("open" if ids[at] == opened else "close") if whole else "cut"
                text, until = self._text(ids[at + 1 : until]), until + whole
            elif ids[at] == end:
                kind, text = "end", ""
            else:
                while until < len(ids) and ids[until] not in (opened, closed, end):
                    until += 1
                kind, text = "text", self._text(ids[at:until])
            out.append(_Piece(kind, text, self._text(ids[at:until])))
            at = until
        return out

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False)) if ids else ""


def _type(value: Any) -> str:
    kinds = ((bool, "boolean"), (str, "string"), ((int, float), "number"), (list, "array"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _read(pieces: list[_Piece], inside: str) -> ParsedResponse:
    reasoning: str | None = None
    content, calls, broken, closed = "", list[ToolCall](), False, False
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        name = piece.text.partition(" ")[0]
        at += 1
        if closed:
            broken = broken or piece.kind != "end"
            content += piece.raw if piece.kind != "end" else ""
        elif piece.kind == "end" or (piece.kind == "close" and name == "message"):
            closed = True
        elif piece.kind == "close" and name == inside:
            inside = ""
        elif inside == "think" and not reasoning and (piece.kind, name) == ("open", "response"):
            inside = name  # the model chose not to think
        elif inside == "think":
            reasoning = (reasoning or "") + piece.raw
        elif inside == "response":
            content += piece.raw
        elif piece.kind == "open" and name in ("think", "response"):
            inside = name
        elif piece.kind == "open" and name == "call":
            call, at = _call(pieces, at - 1)
            calls.append(call)
            broken = broken or call.status in (ToolCallStatus.MALFORMED_STRUCTURE, ToolCallStatus.MISSING_NAME)
        elif name != "tools" or piece.kind not in ("open", "close"):
            content += piece.raw
            broken = broken or bool(piece.raw.strip())
    if not closed:
        ending = Termination.TRUNCATED
    else:
        unclosed = any(call.status is ToolCallStatus.UNCLOSED_BLOCK for call in calls)
        ending = Termination.MALFORMED if broken or inside or unclosed else Termination.STOP
    return ParsedResponse(content, reasoning or None, calls, ending, inside != "think")


def _call(pieces: list[_Piece], at: int) -> tuple[ToolCall, int]:
    """The call that ``pieces[at]`` opens, and where the next thing begins."""
    raw, head = pieces[at].raw, dict(_ATTRIBUTE.findall(pieces[at].text))
    values: dict[str, Any] = {}
    status = ToolCallStatus.OK
    at += 1
    while at < len(pieces):
        piece = pieces[at]
        name = piece.text.partition(" ")[0]
        if (piece.kind, name) == ("close", "call"):
            return ToolCall(html.unescape(head.get("tool", "")), values, raw=raw + piece.raw, status=status), at + 1
        if (piece.kind, name) != ("open", "argument"):
            if piece.kind in ("end", "cut") or name in ("tools", "message"):
                break
            status = ToolCallStatus.MALFORMED_STRUCTURE if piece.raw.strip() else status
            raw, at = raw + piece.raw, at + 1
            continue
        about = dict(_ATTRIBUTE.findall(piece.text))
        raw, at, text = raw + piece.raw, at + 1, ""
        while at < len(pieces) and pieces[at].kind == "text":
            text, raw, at = text + pieces[at].raw, raw + pieces[at].raw, at + 1
        if at == len(pieces) or pieces[at].kind != "close" or pieces[at].text != "argument":
            status = ToolCallStatus.MALFORMED_STRUCTURE if at < len(pieces) else status
            continue
        raw, at = raw + pieces[at].raw, at + 1
        key = html.unescape(about.get("key", ""))
        value, fits = _value(text, about.get("type", ""))
        if key in values or not key:
            status = ToolCallStatus.MALFORMED_STRUCTURE
        elif not fits and status is ToolCallStatus.OK:
            status = ToolCallStatus.INVALID_ARGUMENT
        values[key] = value
    if at < len(pieces) and pieces[at].kind == "cut":
        raw, at = raw + pieces[at].raw, at + 1
    return ToolCall(html.unescape(head.get("tool", "")), values, raw=raw, status=ToolCallStatus.UNCLOSED_BLOCK), at


def _value(text: str, kind: str) -> tuple[Any, bool]:
    """The format says the type of each argument itself."""
    if kind == "string":
        return text, True
    try:
        value = json_value(text)
    except (ValueError, RecursionError):
        return text, False
    return (value, True) if _type(value) == kind or (kind == "integer" and _type(value) == "number") else (text, False)
