"""Whether a parsed completion accounts for every sampled id: reasoning, content, calls, the format's frame, once and in order.

The text of the completion is walked piece by piece (a control token, or the text between two). The raw text of each
attempt at a call must stand in it, in order. Of the rest each piece is the next of the reasoning, the next of the content, or
frame: a control token, blank, or words that the format itself writes beside control tokens (``thought``, ``analysis``). What is
none of these was lost, or changed; what of reasoning and content is left over at the end was added, or is there twice.

A completion may close its reasoning twice: ``why</think>A </think> B`` has one reasoning and one content. Parsers cut at the
last close, at the first, or at both, and lose or move ``A``; of ``why</think>A <think>x</think> B`` they make the reasoning
``whyx``. Here what follows the first close counts as text that has to be somewhere, and where a backend has it nowhere, the
completion is read as the first close says: ``why``, and ``A </think> B``. Tool calls inside a reasoning block are drafts and
are never executed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...probing.text import Atom
from ...types import ParsedResponse, ToolCall

_TAG = re.compile(r"</?[\w:|]{2,}>")
_PART = re.compile(r"\s*\n\s*|(?<=>)|(?=<)")
_EDGES = frozenset("</>")
"""What of a tag is left where its name is a control token."""
_STATES = 256
"""More ways to read a completion than this are given up."""


class Unaccounted(Exception):
    """Why a completion isn't accounted for."""


def account(atoms: Sequence[Atom], parsed: ParsedResponse, frame: frozenset[str], stop: int | None = None) -> None:
    """Check a parsed completion against its text.

    Args:
        atoms: The completion.
        parsed: What the backend made of it.
        frame: Words that the format writes beside control tokens.
        stop: Where the stop stands in the text, behind which nothing is frame; ``None`` where there is none.

    Raises:
        Unaccounted: With the reason.
    """
    text = "".join(atom.text for atom in atoms)
    spans = raw_spans(text, [call.raw for call in parsed.tool_calls])
    for number, (start, _) in enumerate(spans):
        if start < 0:
            raise Unaccounted(f"the raw text of call {number} isn't in the completion behind that of the call before it")
    words, parts, tags = _words(frame)
    goal = (parsed.reasoning_content or "", parsed.content)
    states = {(0, 0)}
    pieces = _outside(atoms, spans, tags, len(text) if stop is None else stop)
    for piece in pieces:
        bare = piece.text.strip()
        # A completion may be cut off inside the frame.
        cut = piece is pieces[-1] and any(word.startswith(bare) for word in words)
        ended = stop is not None and piece.start > stop
        skipped = piece.control or not bare or (not ended and (cut or parts.issuperset(delimiter_parts(bare))))
        following = {after for state in states for after in _after(piece, state, goal, words, skipped)}
        if not following:
            shown = piece.text if len(piece.text) <= 80 else piece.text[:77] + "..."
            raise Unaccounted(f"{shown!r} was sampled, and is neither in the reasoning nor in the content as it was written")
        states = following if len(following) <= _STATES else set(sorted(following)[-_STATES:])
    reasoning, content = goal
    if not any(not reasoning[one:].strip() and not content[two:].strip() for one, two in states):
        raise Unaccounted("the reasoning or the content has text that wasn't sampled there, or has it twice")


@lru_cache(64)
def _words(frame: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str], tuple[str, ...]]:
    """Of a format's frame its words, the parts of these that say something, and the words that are tags."""
    words = tuple(each.strip() for each in frame if each.strip())
    parts = frozenset(
        part for word in words for part in delimiter_parts(word) if set(part) <= _EDGES or any(map(str.isalnum, part))
    )
    return words, parts, tuple(each for each in words if _TAG.fullmatch(each))


def located(text: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls, those without a raw text with the part of the completion that has their name and, behind it, their arguments
    as they are; upstream parsers often keep no raw text."""
    out, at = [], 0
    for call in calls:
        if not call.raw and call["function"]["name"]:
            written = re.escape(call["function"]["name"]) + r"[^{}]{0,160}?" + re.escape(call["function"]["arguments"])
            found = re.compile(written).search(text, at)
            if found is not None:
                at = found.end()
                call = ToolCall(
                    call["function"]["name"], call["function"]["arguments"], id=call.id, raw=found.group(), status=call.status
                )
        elif text.find(call.raw, at) >= 0:
            at = text.index(call.raw, at) + len(call.raw)
        out.append(call)
    return out


def raw_spans(text: str, raws: Sequence[str]) -> list[tuple[int, int]]:
    """Where the raw texts stand, each behind the one before it; (-1, -1) where one doesn't, or is empty."""
    out = []
    at = 0
    for raw in raws:
        start = text.find(raw, at) if raw else -1
        if start < 0:
            raw = raw.strip()
            start = text.find(raw, at) if raw else -1
        out.append((start, start + len(raw)) if start >= 0 else (-1, -1))
        at = max(at, out[-1][1])
    return out


def _outside(atoms: Sequence[Atom], spans: Sequence[tuple[int, int]], tags: Sequence[str], stop: int) -> list[Atom]:
    """What of the atoms is outside of the spans; text before the stop cut at tags that the format writes as ordinary text."""
    pieces: list[Atom] = []
    split = re.compile("|".join(map(re.escape, tags))) if tags else None
    first = 0
    for atom in atoms:
        at, ending = atom.start, (atom.start + len(atom.text))
        while first < len(spans) and spans[first][1] <= at:
            first += 1
        following = first
        while at < ending:
            start, end = spans[following] if following < len(spans) else (ending, ending)
            upto = min(max(start, at), ending)
            if upto > at:
                pieces += _cut(atom.text[at - atom.start : upto - atom.start], atom.control, at, split if at < stop else None)
            at, following = max(upto, min(end, ending)), following + 1
    return pieces


def _cut(text: str, control: bool, start: int, split: re.Pattern[str] | None) -> list[Atom]:
    if control or split is None:
        return [Atom(text, control, start)]
    out, at = [], 0
    for match in split.finditer(text):
        out += [Atom(text[at : match.start()], False, start + at), Atom(match.group(), True, start + match.start())]
        at = match.end()
    out.append(Atom(text[at:], False, start + at))
    return [atom for atom in out if atom.text]


def _after(
    piece: Atom, state: tuple[int, int], goal: tuple[str, str], words: Sequence[str], skipped: bool
) -> set[tuple[int, int]]:
    """How far reasoning and content may be read behind a piece; ``skipped`` where it may be frame."""
    out = {state} if skipped else set()
    texts = {piece.text}
    if not piece.control:
        for word in words:
            bare = piece.text.lstrip()
            if bare.startswith(word):
                texts.add(bare[len(word) :])
            bare = piece.text.rstrip()
            if bare.endswith(word):
                texts.add(bare[: len(bare) - len(word)])
        texts |= {trimmed for text in texts for trimmed in (text.lstrip(), text.rstrip(), text.strip())}
    for text in texts:
        if not text:
            continue
        for which in (0, 1):
            at = state[which]
            for begin in {at, at + _blank(goal[which], at)}:  # a blank between two parts that the backend joined
                if goal[which].startswith(text, begin):
                    moved = begin + len(text)
                    out.add((moved, state[1]) if which == 0 else (state[0], moved))
    return out


def delimiter_parts(text: str) -> list[str]:
    """The tags of a text, and what stands between them, without the blanks."""
    return [part for part in _PART.split(text) if part and not part.isspace()]


def _blank(text: str, at: int) -> int:
    rest = text[at:]
    return len(rest) - len(rest.lstrip())


def with_second_closes(atoms: list[Atom], reasoning: Sequence[str], *, closed: bool) -> list[Atom]:
    """The pieces of a completion, where what follows its first close of reasoning is text: another close, or another opening.

    Args:
        atoms: The pieces.
        reasoning: The texts that open and close reasoning; empty where the format has none, and then nothing changes.
        closed: Whether the prompt has closed the reasoning; a completion may open it again, but not close it before that.
    """
    out, ended = [], False
    for atom in atoms:
        if atom.control and atom.text in reasoning:
            closes = atom.text == reasoning[1]
            if ended or (closes and closed):
                atom = Atom(atom.text, False, atom.start)
            ended, closed = ended or (closes and not closed), closes
        out.append(atom)
    return out


def thoughts(
    atoms: Sequence[Atom], reasoning: Sequence[str], *, opened: bool, closed: bool, calls_end: bool
) -> list[tuple[int, int]]:
    """Where the thoughts of a completion lie in which a call is a sketch: each that is closed, and one that never closes, but
    for a first one where calls may end it.

    Args:
        atoms: The pieces.
        reasoning: As above.
        opened: Whether the prompt has opened one.
        closed: Whether the prompt has closed one.
        calls_end: Whether a call of this format may end a first thought without its close.
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
            start = atom.start + len(atom.text)
    if start is not None and (closed or not calls_end):
        found.append((start, atoms[-1].end))
    return found


def drafts_in(text: str, spans: Sequence[tuple[int, int]], thought: tuple[int, int]) -> list[int]:
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
        content=text if closed else text[(first.start + len(first.text)) :].lstrip("\n"),
        reasoning_content=thought or None,
        reasoning_complete=True,
    )
