"""Ids as text, with special tokens told apart from ordinary text that spells one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple


class Atom(NamedTuple):
    """A piece of a text: one special token (``control``), or the text of a run of ordinary ids; ``start`` is its offset."""

    text: str
    control: bool
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Decoder:
    """Decodes with one tokenizer, special tokens spelled out; keeps the texts of short runs, the words of a format. At ids
    outside the vocabulary each method raises what the tokenizer raises.

    Args:
        tokenizer: Any with ``decode`` that cleans up no spaces (``without_cleanup``).
        control: Ids of special tokens.
    """

    def __init__(self, tokenizer: Any, control: Collection[int]) -> None:
        self._tokenizer, self.control = tokenizer, frozenset(control)
        self._short = lru_cache(4096)(self._decoded)
        self._known: set[int] = set()
        self._last: tuple[list[int], tuple[Atom, ...]] = ([], ())

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return self._decoded(ids) if len(ids) > 8 else self._short(tuple(ids))

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False)) if ids else ""

    def atoms(self, ids: Sequence[int]) -> list[Atom]:
        """The pieces of ``text``, in order; together they are that text. A completion's are asked for more than once."""
        known, last = self._last
        if known == ids:
            return list(last)
        atoms: list[Atom] = []
        for control, run in groupby(ids, self.control.__contains__):
            for text in map(self.text, ([token] for token in run)) if control else [self.text(list(run))]:
                if text:
                    atoms.append(Atom(text, control, atoms[-1].end if atoms else 0))
        self._last = list(ids), tuple(atoms)
        return atoms

    def unknown(self, ids: Sequence[int]) -> int | None:
        """An id that isn't in the vocabulary, where the tokenizer tells: fast ones give it no text, and say nothing.

        An empty text alone tells nothing: SentencePiece strips the space that a text starts with.
        """
        convert = getattr(self._tokenizer, "convert_ids_to_tokens", None)
        for token in set(ids) - self._known:
            try:
                nameless = callable(convert) and convert(token) is None
            except Exception:  # another way to say it
                nameless = True
            if nameless and not self.text([token]):
                return token
            self._known.add(token)
        return None
