"""Ids as text, with special tokens told apart from ordinary text that spells one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

_SHORT, _KEPT = 8, 4096


class Atom(NamedTuple):
    """A piece of a text: one special token (``control``), or the text of a run of ordinary ids; ``start`` is its offset."""

    text: str
    control: bool
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Decoder:
    """Decodes with one tokenizer, special tokens spelled out. The texts of short runs are kept: they are the words of a format,
    which stand between its special tokens.

    Args:
        tokenizer: Any with ``decode`` that cleans up no spaces (``without_cleanup``).
        control: Ids of special tokens.
    """

    def __init__(self, tokenizer: Any, control: Collection[int]) -> None:
        self._tokenizer, self.control = tokenizer, frozenset(control)
        self._texts: dict[tuple[int, ...], str] = {}
        self._known: set[int] = set()
        self._last: tuple[list[int], tuple[Atom, ...]] = ([], ())

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids.

        Raises:
            Exception: What the tokenizer raises at ids outside its vocabulary.
        """
        if len(ids) > _SHORT:
            return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))
        key = tuple(ids)
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            text = self._texts[key] = str(self._tokenizer.decode(list(key), skip_special_tokens=False)) if key else ""
        return text

    def atoms(self, ids: Sequence[int]) -> list[Atom]:
        """The pieces of ``text``, in order; together they are that text. A completion's are asked for more than once.

        Raises:
            Exception: As ``text``.
        """
        known, atoms = self._last
        if known == ids:
            return list(atoms)
        pieces: list[tuple[str, bool]] = []
        run = 0
        for index in [*(index for index, token in enumerate(ids) if token in self.control), len(ids)]:
            pieces += [(self.text(ids[run:index]), False), (self.text(ids[index : index + 1]), True)]
            run = index + 1
        out: list[Atom] = []
        at = 0
        for text, control in pieces:
            if text:
                out.append(Atom(text, control, at))
                at += len(text)
        self._last = list(ids), tuple(out)
        return out

    def unknown(self, ids: Sequence[int]) -> int | None:
        """An id that isn't in the vocabulary, where the tokenizer tells: fast ones give it no text, and say nothing.

        An empty text alone tells nothing: SentencePiece strips the space that a text starts with.

        Raises:
            Exception: As ``text``.
        """
        convert = getattr(self._tokenizer, "convert_ids_to_tokens", None)
        new = set(ids) - self._known
        found = next((token for token in new if _nameless(convert, token) and not self.text([token])), None)
        if found is None:
            self._known |= new
        return found


def _nameless(convert: Any, token: int) -> bool:
    try:
        return callable(convert) and convert(token) is None
    except Exception:  # another way to say it
        return True
