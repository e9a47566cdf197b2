"""Token ids as text in which a control id can't be mistaken for spelled text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

CONTROL = re.compile(r"[\ud800-\udfff]")
"""A control id in such text. No decoded text has lone surrogates, so nothing that a model spells equals one."""
_FIRST, _COUNT = 0xD800, 0x800
_UNREADABLE = "\ufffd"
_SHORT, _KEPT = 8, 4096


class IdText:
    """Ids to text and back to plain text: each control id is one lone surrogate, the ids between are decoded.

    A run of ids is decoded behind the control id before it, so that SentencePiece decoders, which strip a text's first space,
    strip none. The texts of short runs are kept: they are the words of a format, which stand between its control ids.

    Args:
        decode: Ids to text, with control tokens, without cleaning up spaces.
        control_ids: Ids that ordinary text doesn't become.
        special_ids: Those among them that never are part of a message's text (a vocabulary may add ``<b>``, which may be).
    """

    def __init__(self, decode: Callable[[list[int]], str], control_ids: Iterable[int], special_ids: Iterable[int]) -> None:
        self._decode = decode
        self.control = frozenset(control_ids)
        self.special = frozenset(special_ids)
        self._codes: dict[int, str] = {}
        self._texts: dict[str, str] = {}
        self._runs: dict[tuple[int | None, tuple[int, ...]], str] = {}
        self._remembers = False

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """While probes are rendered, which have most of their text in common, every run is decoded once."""
        self._remembers = True
        try:
            yield
        finally:
            self._remembers = False
            self._runs.clear()

    def fork(self) -> IdText:
        """A copy that may meet further control ids without changing this one."""
        copy = IdText(self._decode, self.control, self.special)
        copy._codes, copy._texts, copy._runs = dict(self._codes), dict(self._texts), self._runs
        return copy

    def show(self, ids: Sequence[int]) -> str:
        """The text of ids. Beyond 2,048 different control ids, the further ones are decoded like text."""
        shown, before, start = "", None, 0
        for at, token in enumerate(ids):
            if token in self.control and (code := self.code(token)) is not None:
                shown += self._run(before, ids[start:at]) + code
                before, start = token, at + 1
        return shown + self._run(before, ids[start:])

    def code(self, token: int) -> str | None:
        """The character that stands for a control id."""
        if token not in self._codes:
            if len(self._codes) == _COUNT:
                return None
            code = chr(_FIRST + len(self._codes))
            self._codes[token] = code
            self._texts[code] = self._decoded([token])
        return self._codes[token]

    def codes(self, tokens: Iterable[int]) -> frozenset[str]:
        """The characters that stand for these control ids."""
        return frozenset(code for token in sorted(tokens) if (code := self.code(token)) is not None)

    def id_of(self, code: str) -> int | None:
        """The control id that a character stands for."""
        return next((token for token, known in self._codes.items() if known == code), None)

    def find(self, text: str) -> str | None:
        """The character of the control id that decodes to this text."""
        token = next((token for token in sorted(self.control) if self._decoded([token]) == text), None)
        return None if token is None else self.code(token)

    def special_in(self, text: str) -> frozenset[str]:
        """The characters in a text that stand for special ids."""
        return frozenset(code for code in set(CONTROL.findall(text)) if self.id_of(code) in self.special)

    def plain(self, text: str) -> str:
        """The text with each control id as the tokenizer decodes it."""
        return CONTROL.sub(lambda found: self._texts.get(found[0], _UNREADABLE), text)

    def plain_value(self, value: Any) -> Any:
        """A JSON value with all its texts and keys plain."""
        if isinstance(value, str):
            return self.plain(value)
        if isinstance(value, list):
            return [self.plain_value(item) for item in value]
        return {self.plain(k): self.plain_value(v) for k, v in value.items()} if isinstance(value, dict) else value

    def _run(self, before: int | None, ids: Sequence[int]) -> str:
        key = before, tuple(ids)
        if not ids or key in self._runs:
            return self._runs[key] if ids else ""
        head = "" if before is None else self._texts[self._codes[before]]
        whole = self._decoded([*ids] if before is None else [before, *ids])
        text = whole[len(head) :] if whole.startswith(head) else self._decoded([*ids])
        if self._remembers or len(ids) <= _SHORT:
            if len(self._runs) >= _KEPT and not self._remembers:
                self._runs.clear()
            self._runs[key] = text
        return text

    def _decoded(self, ids: list[int]) -> str:
        try:
            return CONTROL.sub(_UNREADABLE, self._decode(ids))
        except Exception:  # ids outside the vocabulary
            return _UNREADABLE * len(ids)
