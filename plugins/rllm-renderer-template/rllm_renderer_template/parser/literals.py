"""The literal texts of a format: compared, matched and trimmed by atoms.

An atom is a control id, a tag, a stretch of white space, a number or a word. Two renders are compared atom by atom, not
character by character: ``<tool_call>`` and ``<tools>`` begin alike, and share nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from .id_text import CONTROL

_ATOM = re.compile(r"[\ud800-\udfff]|</?[^<>\s\ud800-\udfff]*>?|\s+|\d+|[^\W\d]+|.", re.S)


class Unlike(Exception):
    """Two literals that should be the same are written differently."""


def atoms(text: str) -> list[str]:
    return _ATOM.findall(text)


def common_start(texts: Sequence[str]) -> str:
    """The atoms with which all texts start."""
    return "".join(_shared([atoms(text) for text in texts]))


def common_end(texts: Sequence[str]) -> str:
    """The atoms with which all texts end."""
    return "".join(reversed(_shared([atoms(text)[::-1] for text in texts])))


def _shared(columns: list[list[str]]) -> list[str]:
    alike = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*columns, strict=False))
    return [column[0] for column in alike]


def pattern(literal: str, other: str | None = None) -> str:
    """A regular expression for a literal: any white space where it has some, any number where ``other`` has another.

    Raises:
        Unlike: ``other`` differs in more than numbers and white space.
    """
    mine, theirs = atoms(literal), atoms(literal if other is None else other)
    if len(mine) != len(theirs):
        raise Unlike
    expression = ""
    for a, b in zip(mine, theirs, strict=True):
        if a != b and not (a.isdigit() and b.isdigit()) and not (a.isspace() and b.isspace()):
            raise Unlike
        expression += r"\s*" if a.isspace() else re.escape(a) if a == b else r"\d+"
    return expression


def loose(literal: str) -> re.Pattern[str]:
    """Matches a literal with white space before it, and behind it where the literal ends with some."""
    return re.compile(r"\s*" + pattern(literal.strip()) + (r"\s*" if literal[-1:].isspace() else ""))


def lead(text: str) -> str:
    """The white space at the start; all of a text that is nothing else."""
    return text[: len(text) - len(text.lstrip())]


def trail(text: str) -> str:
    """The white space at the end; nothing of a text that is nothing else."""
    return text[len(text.rstrip()) :] if text.strip() else ""


def core(text: str) -> str:
    """The text without white space at its edges."""
    return text.strip()


def trimmed(text: str, before: str, behind: str) -> str:
    """The text without the format's white space at its edges, or as much of it as is there."""
    while before and not text.startswith(before):
        before = before[1:]
    text = text[len(before) :]
    while behind and not text.endswith(behind):
        behind = behind[:-1]
    return text[: len(text) - len(behind)] if behind else text


def until_stop(text: str, stops: frozenset[str] | set[str]) -> tuple[str, str]:
    """The text before the first stop, and the rest from it on (empty where there is none)."""
    found = re.search("[" + "".join(stops) + "]", text) if stops else None
    return (text, "") if found is None else (text[: found.start()], text[found.start() :])


def first_of(words: Iterable[str], text: str, low: int, high: int | None = None) -> int | None:
    """Where the first of these words stands in a text."""
    return min((at for word in words if (at := text.find(word, low, high)) >= 0), default=None)


def controls(*texts: str) -> set[str]:
    """The control ids in these texts."""
    return set(CONTROL.findall("".join(texts)))
