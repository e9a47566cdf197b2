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
        out = IdText(self._decode, self.control, self.special)
        out._codes, out._texts, out._runs = dict(self._codes), dict(self._texts), self._runs
        return out

    def show(self, ids: Sequence[int]) -> str:
        """The text of ids. Beyond 2,048 different control ids, the further ones are decoded like text."""
        out: list[str] = []
        run: list[int] = []
        before = None
        for token in ids:
            code = self.code(token) if token in self.control else None
            if code is None:
                run.append(token)
                continue
            out += (self._run(before, run), code)
            before, run = token, []
        return "".join((*out, self._run(before, run)))

    def code(self, token: int) -> str | None:
        """The character that stands for a control id."""
        if token not in self._codes:
            if len(self._codes) == _COUNT:
                return None
            code = chr(_FIRST + len(self._codes))
            self._codes[token] = code
            self._texts[code] = CONTROL.sub(_UNREADABLE, self._decoded([token]))
        return self._codes[token]

    def id_of(self, code: str) -> int | None:
        """The control id that a character stands for."""
        return next((token for token, each in self._codes.items() if each == code), None)

    def find(self, text: str) -> str | None:
        """The character of the control id that decodes to this text."""
        found = next((token for token in sorted(self.control) if self._decoded([token]) == text), None)
        return None if found is None else self.code(found)

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
            return [self.plain_value(each) for each in value]
        return {self.plain(k): self.plain_value(v) for k, v in value.items()} if isinstance(value, dict) else value

    def _run(self, before: int | None, ids: list[int]) -> str:
        if not ids:
            return ""
        if len(ids) > _SHORT and not self._remembers:
            return self._decoded_behind(before, ids)
        key = before, tuple(ids)
        text = self._runs.get(key)
        if text is None:
            text = self._decoded_behind(before, ids)
            if len(self._runs) >= _KEPT and not self._remembers:
                self._runs.clear()
            self._runs[key] = text
        return text

    def _decoded_behind(self, before: int | None, ids: list[int]) -> str:
        if before is not None:
            head, whole = self._texts[self._codes[before]], CONTROL.sub(_UNREADABLE, self._decoded([before, *ids]))
            if whole.startswith(head):
                return whole[len(head) :]
        return CONTROL.sub(_UNREADABLE, self._decoded(ids))

    def _decoded(self, ids: list[int]) -> str:
        try:
            return self._decode(ids)
        except Exception:  # ids outside the vocabulary
            return _UNREADABLE * len(ids)
