"""The words that a format writes beside its control tokens, which are nobody's text: harmony's ``analysis``, a role's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ...probing.calls import QUESTION
from ...probing.text import Atom
from .accounting import frame_parts

_CALL = {"id": "call00000", "type": "function", "function": {"name": "zulu", "arguments": '{"yankee": "xray"}'}}
_TEXTS = ("omega", "alpha", "zulu", "yankee", "xray")


class Frame:
    """Learned from one renderer, when first asked for.

    Args:
        render: Messages in normal form to the atoms of their prompt.
    """

    def __init__(self, render: Callable[[list[dict[str, Any]]], list[Atom]]) -> None:
        self._render = render

    @cached_property
    def text(self) -> frozenset[str]:
        """Words in a turn of text, and in front of reasoning."""
        return _words(*self._shown({"content": "omega"})) | _words(*self._calling, until="alpha")

    @cached_property
    def calls(self) -> frozenset[str]:
        """Words in a turn with a call."""
        return _words(*self._calling)

    @cached_property
    def call_parts(self) -> frozenset[str]:
        """The same in the parts by which a completion is accounted for."""
        return frozenset(part for word in self.calls for part in frame_parts(word))

    @cached_property
    def control(self) -> frozenset[str]:
        """The control tokens around messages, reasoning and calls, blanks stripped: none of them is ever part of a text."""
        shown = (*self._shown({"content": "omega"})[0], *self._calling[0])
        return frozenset(atom.text.strip() for atom in shown if atom.control and atom.text.strip())

    def stands_in(self, content: str, atoms: Sequence[Atom]) -> bool:
        """Whether such tokens, sampled as tokens, stand in the content: half a call, a turn's opener.

        Args:
            content: Of a completion.
            atoms: Its pieces, without its stop.
        """
        marks = {mark for atom in atoms if atom.control and (mark := atom.text.strip()) and mark in content}
        if not marks:
            return False
        spelled = "\n".join(atom.text for atom in atoms if not atom.control)
        return any(content.count(mark) > spelled.count(mark) for mark in marks & self.control)

    @cached_property
    def _calling(self) -> tuple[list[Atom], int]:
        return self._shown({"content": "", "tool_calls": [_CALL]})

    def _shown(self, turn: dict[str, Any]) -> tuple[list[Atom], int]:
        """A turn with reasoning, under the key that the format shows, and where it starts."""
        for key in ("reasoning_content", "thinking"):
            try:
                shown = self._render([dict(QUESTION), {"role": "assistant", key: "alpha", **turn}])
            except Exception:  # a format that has no reasoning, or no calls
                continue
            text = "".join(atom.text for atom in shown)
            start = text.rfind("ping") + 4
            if "alpha" in text[start:] or key == "thinking":
                return shown, start
        return [], 0


def _words(shown: list[Atom], start: int, until: str | None = None) -> frozenset[str]:
    """The format's own words behind a place; up to a text, or to the end."""
    text = "".join(atom.text for atom in shown)
    end = len(text) if until is None else text.find(until, start)
    return frozenset(part for atom in shown if start < atom.end <= end for part in _plain_parts(atom, start))


def _plain_parts(atom: Atom, start: int) -> list[str]:
    """The words of a rendered text that are the format's own."""
    if atom.control:
        return []
    text = atom.text[max(0, start - atom.start) :]
    for word in _TEXTS:
        text = text.replace(word, "\0")
    return [part for part in text.split("\0") if part.strip()]
