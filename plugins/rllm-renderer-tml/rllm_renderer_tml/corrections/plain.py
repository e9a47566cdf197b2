"""Conversations that no row of the table changes: most prompts of a chat, which upstream then gets as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .splices import OPENING

_NEXT = {"": ("system", "user"), "system": ("user",), "user": ("assistant",), "assistant": ("user",)}


def only_texts(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether users and the assistant speak by turns, a user last, in texts that no format trims, cuts or puts together.

    Each row rewrites one of these alone: tools, calls, results, reasoning, two turns of a role in a row, a system text that
    isn't first, blank texts, white space at an edge, markers of reasoning inside a text, placeholders.

    Args:
        messages: In normal form.
    """
    before = ""
    for message in messages:
        role, content = message["role"], message["content"]
        if len(message) != 2 or role not in _NEXT[before] or type(content) is not str or not content:
            return False
        if content[0].isspace() or content[-1].isspace() or "think>" in content or OPENING in content:
            return False
        before = role
    return before == "user"
