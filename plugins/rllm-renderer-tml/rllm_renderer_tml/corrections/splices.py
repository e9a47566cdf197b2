"""Placeholders in what upstream renders, replaced by the exact ids: for what upstream writes with other ids than the template.

Upstream takes text and encodes it by rules of its own: it trims some texts, sorts the keys of some declarations, encodes a
role's header apart from the text behind it, and makes control tokens only where its format has them. So a row of the table can
hand it a placeholder instead. In the ids that come back, the stretch between two control tokens that holds the placeholder
is decoded, the placeholder's text is exchanged for what the official template has there, and the stretch is encoded again as
the tokenizer does it: whole, since control tokens are what it splits text at. Only ids that upstream has just encoded are
decoded; sampled ids never come here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rllm_renderer_core.errors import MessageError

OPENING, CLOSING = "\ue0f7", "\ue0f8"
"""Two characters of the private use area around a placeholder's number."""

FORM = re.compile(f"{OPENING}([0-9]+){CLOSING}")

Piece = str | int
"""Text, or the id of a control token."""


class Splices:
    """The placeholders of one render.

    Args:
        upstream: ``tml_renderers``' own tokenizer, which encodes text without control tokens.
        control: Ids of control tokens.
    """

    def __init__(self, upstream: Any, control: frozenset[int]) -> None:
        self._upstream, self._control = upstream, control
        self._pieces: list[Sequence[Piece]] = []
        self._around: list[tuple[str, str]] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def hold(self, *pieces: Piece, before: str = "", after: str = "") -> str:
        """A placeholder for these pieces.

        Args:
            pieces: What stands there in the end.
            before: What upstream writes before the placeholder, and shall not stay; ``after`` likewise.
        """
        self._pieces.append(pieces)
        self._around.append((before, after))
        return f"{OPENING}{len(self._pieces) - 1}{CLOSING}"

    def apply(self, ids: list[int]) -> list[int]:
        """The ids with every placeholder replaced.

        Raises:
            MessageError: A placeholder doesn't come back from upstream as it went there.
        """
        left = len(self._pieces)
        out: list[int] = []
        start = 0
        control = self._control
        for end in [at for at, token in enumerate(ids) if token in control] + [len(ids)]:
            if not left:
                break
            text = self._upstream.decode_bytes(ids[start:end]).decode("utf-8", "replace") if end > start else ""
            if OPENING in text:
                replaced, count = self._replaced(text)
                left -= count
                out += replaced
            else:
                out += ids[start:end]
            out += ids[end : end + 1]
            start = end + 1
        out += ids[start:]
        if left:
            raise MessageError("upstream doesn't render every message of this conversation as it is: it can't be corrected")
        return out

    def _replaced(self, text: str) -> tuple[list[int], int]:
        """The ids of a stretch of text, and how many placeholders it had."""
        pieces: list[Piece] = []
        at = count = 0
        for found in FORM.finditer(text):
            number = int(found[1])
            before, after = self._around[number]
            lead = text[at : found.start()]
            if not lead.endswith(before) or not text.startswith(after, found.end()):
                raise MessageError("upstream writes something else around a text than was learned: it can't be corrected")
            pieces += [lead[: len(lead) - len(before)], *self._pieces[number]]
            at = found.end() + len(after)
            count += 1
        pieces.append(text[at:])
        return self._encoded(pieces), count

    def _encoded(self, pieces: Iterable[Piece]) -> list[int]:
        out: list[int] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, str):
                text += piece
                continue
            out += self._upstream.encode_ordinary(text) if text else []
            out.append(piece)
            text = ""
        return out + (list(self._upstream.encode_ordinary(text)) if text else [])


def refuse_placeholders(texts: Iterable[str]) -> None:
    """Raises ``MessageError`` where a text has the characters of a placeholder."""
    for text in texts:
        if OPENING in text:
            raise MessageError(
                f"a message has the private-use character U+{ord(OPENING):04X}, which this backend keeps for itself",
                fix="remove it, or choose another backend=",
            )
