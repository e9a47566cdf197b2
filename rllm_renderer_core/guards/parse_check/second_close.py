"""A completion that closes its reasoning twice: the second close is text, and so is what stands around it.

``why</think>A </think> B`` has one reasoning and one content. Parsers cut at the last close, at the first, or at both, and lose
or move ``A``. Here the second close counts as text that has to be somewhere, and where a backend has it nowhere, the completion
is read as the first close says: ``why``, and ``A </think> B``.
A call in any of a completion's thoughts is a sketch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...probing.text import Atom
from ...types import ParsedResponse
from .accounting import raw_spans


def with_second_closes(atoms: list[Atom], reasoning: Sequence[str], *, closed: bool) -> list[Atom]:
    """The pieces of a completion, where a close of reasoning that isn't open is text and no control token.

    Args:
        atoms: The pieces.
        reasoning: The texts that open and close reasoning; empty where the format has none, and then nothing changes.
        closed: Whether the prompt has closed the reasoning; else a first close needs no opening before it.
    """
    out = []
    for atom in atoms:
        if atom.control and atom.text in reasoning:
            closes = atom.text == reasoning[1]
            if closes and closed:
                atom = Atom(atom.text, False, atom.start)
            closed = closes
        out.append(atom)
    return out


def thoughts(atoms: Sequence[Atom], reasoning: Sequence[str], *, opened: bool, closed: bool) -> list[tuple[int, int]]:
    """Where the thoughts of a completion lie in which a call is a sketch: each that is closed, and one that is opened behind a
    close and never closed. A first thought that isn't closed is none: some formats' calls end it.

    Args:
        atoms: The pieces.
        reasoning: As above.
        opened: Whether the prompt has opened one.
        closed: Whether the prompt has closed one.
    """
    found: list[tuple[int, int]] = []
    start: int | None = 0 if opened else None
    for atom in atoms:
        if not atom.control or atom.text not in reasoning:
            continue
        if atom.text == reasoning[1]:
            closed = True
            found += [] if start is None else [(start, atom.start)]
            start = None
        elif start is None:
            start = atom.end
    return found + ([(start, atoms[-1].end)] if start is not None and closed else [])


def sketches(text: str, spans: Sequence[tuple[int, int]], thought: tuple[int, int]) -> list[int]:
    """Which calls stand in the thought: those that begin in it, unless they and all that follow stand behind it as well."""
    inside = [at for at, (start, _) in enumerate(spans) if thought[0] <= start < thought[1]]
    if not inside:
        return []
    behind = raw_spans(text[thought[1] :], [text[start:end] for start, end in spans[inside[0] :]])
    return inside if any(start < 0 for start, _ in behind) else []


def kept_whole(atoms: Sequence[Atom], parsed: ParsedResponse, reasoning: Sequence[str], *, closed: bool) -> ParsedResponse:
    """A completion without calls as its first close says: reasoning before it, all text behind it is content."""
    text = "".join(atom.text for atom in atoms)
    first = next(atom for atom in atoms if atom.control and atom.text == reasoning[1])
    thought = None if closed else text[: first.start].strip().removeprefix(reasoning[0]).strip("\n")
    return replace(
        parsed,
        content=text if closed else text[first.end :].lstrip("\n"),
        reasoning_content=thought or None,
        reasoning_complete=True,
    )
