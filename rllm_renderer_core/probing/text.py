"""Ids to text exactly: nothing cleaned up, and what is a control token told apart from text that spells one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from ..normal_form.ids import LIMIT
from ..normal_form.tokenizer import id_limit


def without_cleanup(tokenizer: Any) -> Any:
    """The tokenizer, or a shallow copy of it whose ``decode`` leaves spaces as they are.

    Official Llama 3 tokenizers ship ``clean_up_tokenization_spaces=True``, by which ``x != y , z`` decodes to ``x!= y, z``. The
    caller's object isn't touched; the copy shares its vocabulary.
    """
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return tokenizer
    plain = copy.copy(tokenizer)
    plain.clean_up_tokenization_spaces = False
    return plain


def decoder_of(tokenizer: Any) -> Callable[[list[int]], str]:
    """Ids to text, control tokens spelled out and nothing cleaned up; ids that the vocabulary can't have are no text."""
    plain, limit = without_cleanup(tokenizer), id_limit(tokenizer) or LIMIT

    def decode(ids: list[int]) -> str:
        return str(plain.decode([token for token in ids if 0 <= token < limit], skip_special_tokens=False))

    return decode


_SHORT, _KEPT = 8, 4096


class Atom(NamedTuple):
    """A piece of a text: a control token, or a run of ordinary ids."""

    text: str
    control: bool
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Decoder:
    """Decodes with one tokenizer.

    Args:
        tokenizer: Any with ``decode``.
        control: Ids of control tokens.
    """

    def __init__(self, tokenizer: Any, control: Collection[int]) -> None:
        self._tokenizer, self._control = tokenizer, control
        self._texts: dict[tuple[int, ...], str] = {}
        self._known: set[int] = set()
        self._last: tuple[list[int], tuple[Atom, ...]] = ([], ())

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens spelled out.

        Raises:
            Exception: What the tokenizer raises at ids outside its vocabulary.
        """
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False)) if ids else ""

    def atoms(self, ids: Sequence[int]) -> list[Atom]:
        """The pieces of ``text``, in order; together they are that text. A completion's are asked for more than once.

        Raises:
            Exception: As ``text``.
        """
        known, atoms = self._last
        if known == ids:
            return list(atoms)
        out: list[Atom] = []
        at = run = 0

        def add(text: str, control: bool) -> None:
            nonlocal at
            if text:
                out.append(Atom(text, control, at))
                at += len(text)

        for index, token in enumerate(ids):
            if token in self._control:
                add(self._kept(ids[run:index]), False)
                add(self._kept((token,)), True)
                run = index + 1
        add(self._kept(ids[run:]), False)
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

    def _kept(self, ids: Sequence[int]) -> str:
        """The text of ids. That of a few is kept: the words of a format, which stand between its control tokens."""
        if len(ids) > _SHORT:
            return self.text(ids)
        key = tuple(ids)
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            text = self._texts[key] = self.text(ids)
        return text


def _nameless(convert: Any, token: int) -> bool:
    try:
        return callable(convert) and convert(token) is None
    except Exception:  # another way to say it
        return True
