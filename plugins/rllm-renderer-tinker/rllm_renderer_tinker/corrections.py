"""Where upstream's render differs from the official template, and what is rewritten before upstream sees it.

One table of one-line rows, used in render and bridge alike. A row says what the template does; it is harmless where upstream
does the same already (a single result stays as it is, trimmed text isn't trimmed again), so that one table serves all
supported versions. ``tests/tinker/test_corrections.py`` shows for each row, on the installed version, that the ids with
the row equal the template, and whether they would without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .catalog import family

Messages = list[dict[str, Any]]
Rewrite = Callable[[Messages], Messages]

MERGED = "_merged"
"""Key of a message that stands for several: how many."""


@dataclass(frozen=True)
class Correction:
    """One row.

    Args:
        families: Names of renderers without the suffix of a variant.
        why: What the official template does.
        rewrite: Messages in normal form to messages in normal form.
        tools_in_bridge: False where tools are part of the first turn alone and upstream can't render them: then a bridge needs
            no tools, although a render does.
    """

    families: tuple[str, ...]
    why: str
    rewrite: Rewrite | None = None
    tools_in_bridge: bool = True


def glue_results(separator: str) -> Rewrite:
    """Consecutive tool results as one message, their contents joined by what the template puts between them."""

    def rewrite(messages: Messages) -> Messages:
        out: Messages = []
        for message in messages:
            last = out[-1] if out else None
            if last is not None and message["role"] == last["role"] == "tool" and _text(message) and _text(last):
                merged = last.get(MERGED, 1) + 1
                out[-1] = {**last, "content": last["content"] + separator + message["content"], MERGED: merged}
            else:
                out.append(message)
        return out

    return rewrite


def trim(*roles: str) -> Rewrite:
    """Text of these roles without white space at its edges."""

    def rewrite(messages: Messages) -> Messages:
        return [{**m, "content": m["content"].strip()} if m["role"] in roles and _text(m) else m for m in messages]

    return rewrite


def _text(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], str)


IN_ONE_TURN = glue_results("\n</tool_response>\n<tool_response>\n")

CORRECTIONS: tuple[Correction, ...] = (
    Correction(("qwen3_5", "qwen3_8"), "trims every text", trim("user", "system", "assistant", "tool")),
    Correction(("qwen3", "qwen3_instruct", "qwen3_5", "qwen3_8"), "puts parallel results into one turn", IN_ONE_TURN),
    Correction(("nemotron3", "nemotron3_ultra"), "puts parallel results into one turn", IN_ONE_TURN),
    Correction(("llama3",), "trims every text", trim("user", "system", "assistant")),
)


def rows_for(name: str, table: Sequence[Correction] = CORRECTIONS) -> tuple[Correction, ...]:
    """The rows of a renderer, in the order of the table."""
    return tuple(row for row in table if family(name) in row.families)


def corrected(messages: Messages, rows: Sequence[Correction]) -> Messages:
    """The messages as upstream shall see them."""
    for row in rows:
        if row.rewrite is not None:
            messages = row.rewrite(messages)
    return messages
