"""Control tokens that message text spells: found, and guarded so that no backend can turn them into control ids.

``marker_text="literal"``: a guard, a string that nobody can write, is put inside each spelled control token before a backend
sees the text. Templates and renderers carry it along like any other text; the tokenizer that the backend was given (see
``plain.py``) takes it out again and tokenizes what was guarded as ordinary text.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import TokenizerError
from ...normal_form.tokenizer import is_plain_markup, spelling
from ...types import ParsedResponse, ToolCall

GUARD = f"zq{secrets.token_hex(8)}qz"
"""New in each process, so that no text can hold it. Letters and digits: no template trims, escapes or sorts them away."""

_JSON_UNIT = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|.", re.S)
_ESCAPES = {'\\"': '"', "\\\\": "\\", "\\/": "/", "\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t"}


class Markers:
    """The control tokens of a vocabulary, as texts.

    Args:
        texts: Text of each added token, and whether the tokenizer calls it special.

    Raises:
        TokenizerError: A special token is one character, which no guard fits into.
    """

    def __init__(self, texts: Mapping[str, bool]) -> None:
        self.texts = frozenset(text for text, special in texts.items() if special or not is_plain_markup(text))
        short = sorted(text for text in self.texts if len(text) < 2)
        if any(texts[text] for text in short):
            raise TokenizerError(
                f"marker_text='literal': the tokenizer has a special token of one character, {short[0]!r}",
                fix="use marker_text='error', which refuses texts that spell a control token",
            )
        self.texts -= set(short)
        self._first = tuple(sorted({text[0] for text in self.texts}))
        self.pattern = re.compile(spelling(self.texts) or r"(?!)")
        self._starts = re.compile(f"(?={self.pattern.pattern})")

    def in_text(self, text: str) -> bool:
        """Whether the text spells a control token."""
        return any(first in text for first in self._first) and self.pattern.search(text) is not None

    def guarded(self, text: str) -> str:
        """The text with a guard behind the first character of each control token in it, overlapping ones too."""
        if not any(first in text for first in self._first):
            return text
        cuts = [match.start() + 1 for match in self._starts.finditer(text)]
        return _cut(text, cuts)

    def guarded_json(self, text: str) -> str:
        """JSON text with a guard in each control token that it spells, with or without escapes; byte for byte but for that."""
        if "\\" not in text:
            return self.guarded(text)
        ends: list[int] = []
        plain: list[str] = []
        for unit in _JSON_UNIT.finditer(text):
            plain.append(_unescaped(unit[0]))
            ends.append(unit.end())
        cuts = {ends[match.start()] for match in self._starts.finditer("".join(plain))}
        return _cut(text, sorted(cuts | {match.start() + 1 for match in self._starts.finditer(text)}))

    def guarded_value(self, value: Any) -> Any:
        """A JSON value with all its texts and keys guarded; the same object where nothing is spelled."""
        if isinstance(value, str):
            return self.guarded(value)
        if isinstance(value, Mapping):
            return {self.guarded_value(key): self.guarded_value(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.guarded_value(each) for each in value]
        return value

    def guarded_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message in normal form with every text guarded: contents, reasoning, names, ids, arguments."""
        guarded: dict[str, Any] = {}
        for key, value in message.items():
            if key == "tool_calls":
                guarded[key] = [self._guarded_call(call) for call in value]
            elif key == "content" and not isinstance(value, str):
                guarded[key] = [{**part, "text": self.guarded(part["text"])} if "text" in part else part for part in value]
            else:
                guarded[key] = value if key == "role" else self.guarded_value(value)
        return guarded

    def _guarded_call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        guarded = {"name": self.guarded(function["name"]), "arguments": self.guarded_json(function["arguments"])}
        return {**self.guarded_value({k: v for k, v in call.items() if k != "function"}), "function": guarded}


def without_guards(parsed: ParsedResponse) -> ParsedResponse:
    """What was parsed, with the texts as they were sampled."""
    texts = (parsed.content, parsed.reasoning_content or "", parsed.loss or "")
    if not any(GUARD in text for text in (*texts, *(call.raw + str(dict(call)) for call in parsed.tool_calls))):
        return parsed
    return replace(
        parsed,
        content=unguarded(parsed.content),
        reasoning_content=None if parsed.reasoning_content is None else unguarded(parsed.reasoning_content),
        loss=None if parsed.loss is None else unguarded(parsed.loss),
        tool_calls=[
            ToolCall(
                unguarded(call.name),
                unguarded(call["function"]["arguments"]),
                id=None if call.id is None else unguarded(call.id),
                raw=unguarded(call.raw),
                status=call.status,
            )
            for call in parsed.tool_calls
        ],
    )


def unguarded(text: str) -> str:
    """The text without guards."""
    return text.replace(GUARD, "")


def _cut(text: str, cuts: Sequence[int]) -> str:
    if not cuts:
        return text
    pieces = [text[start:end] for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True)]
    return GUARD.join(pieces)


def _unescaped(unit: str) -> str:
    """One character of JSON text, or one escape in it, as the one character that it stands for."""
    if len(unit) == 6:
        return chr(int(unit[2:], 16))
    return unit if len(unit) == 1 else _ESCAPES.get(unit, "\ufffd")
