"""What a row of the table may ask while one conversation is rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .splices import Splices

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Context:
    """One render.

    Attributes:
        splices: Placeholders, by which a row gets the ids that it wants.
        vocabulary: Upstream's own tokenizer.
        arguments: What upstream was made with.
    """

    splices: Splices
    vocabulary: Any
    arguments: Mapping[str, Any]

    def tag(self, name: str) -> int:
        """The id of a control token, by upstream's name of it."""
        return int(self.vocabulary.encode_special(name))


Row = Callable[[Messages, Context], Messages]
"""Messages in normal form to messages for upstream."""
