"""Whether a text argument stands in a call's raw text as it was sampled, and whether it is one argument."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...probing.text import Atom
from .canonical import canonical_strings


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(part)


def stands(key: str, text: str, raw: str, written: str, *, nested: bool) -> bool:
    """Whether a string stands in the raw text with the blanks around it that the format writes, or as JSON text."""
    marks = _marks(key, text, written)
    if marks is not None:
        _, between, closing = marks
        # Between the format's tags blanks are free, at the edges of the value they aren't.
        free = r"\s*".join(map(re.escape, re.findall(r"<[^<>]*>?|[^<\s]+", between)))
        edges = between[len(between.rstrip()) :], closing[: len(closing) - len(closing.lstrip())]
        # A value that stands directly between the tags, without the format's own blanks, can't be read in another way either.
        shown = [re.escape(before + text + behind + closing.lstrip()) for before, behind in (edges, ("", "")) if text or before]
        if re.search(re.escape(key) + r"\s*" + free + f"(?:{'|'.join(shown)})", raw):
            return True
        if nested and _blanks(text, written) & _blanks(text, raw):
            return True
    elif not text.strip() or _blanks(text, written) & _blanks(text, raw) or (nested and _blanks(text, raw)):
        return True
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted in raw or quoted in canonical_strings(raw)


def _blanks(text: str, where: str) -> set[tuple[str, str]]:
    """The blanks directly around each place where a text stands, as (before, behind)."""
    out: set[tuple[str, str]] = set()
    at = where.find(text)
    while at >= 0 and len(out) < 64:
        before, behind = where[:at], where[at + len(text) :]
        inside = (text[:1].isalnum() and before[-1:].isalnum()) or (text[-1:].isalnum() and behind[:1].isalnum())
        left, right = before[-64:], behind[:64]
        if not inside:
            out.add((left[len(left.rstrip()) :], right[: len(right) - len(right.lstrip())]))
        at = where.find(text, at + 1)
    return out


def swallows(key: str, value: str, written: str, atoms: Sequence[Atom]) -> bool:
    """Whether a value has marks in it by which the format closes a parameter or opens the next one."""
    found = _marks(key, value, written)
    if found is None:
        return False
    opening, between, closing = found
    marked = any(atom.control and closing and (atom.text in closing or atom.text.startswith(closing)) for atom in atoms)
    if marked and any(value in atom.text for atom in atoms if not atom.control):
        return False
    if closing.strip() and closing.rstrip("\n") in value:
        return True
    head = re.escape(opening.strip()) + r"[^<>\n]{1,64}?" + re.escape(between.strip())
    if opening.strip() and any(_apart(found, value, opening, between) for found in re.finditer(head, value)):
        return True
    marks = {mark for mark in (*re.findall(r"<[^<>\s]*>?", opening), *re.findall(r"<[^<>\s]*>", between)) if len(mark) > 2}
    inside = [mark for mark in marks if mark in value]
    return (
        len(inside) > 1
        or any(value.strip().startswith(mark) for mark in inside)
        or bool(opening.strip() and "\n" in opening and opening[opening.rindex("\n") :] in value)
    )


def _apart(found: re.Match[str], value: str, opening: str, between: str) -> bool:
    """Whether a parameter's head stands in a value as the format writes it, on a line of its own or not."""
    lines = opening.startswith("\n") and between.endswith("\n")
    before, behind = value[: found.start()].rstrip(" ")[-1:], value[found.end() :].lstrip(" ")[:1]
    return not lines or before in ("", "\n") or behind in ("", "\n")


def _marks(key: str, value: str, written: str) -> tuple[str, str, str] | None:
    """What the format writes in front of a parameter's name, between name and value, and behind the value.

    Name and value are looked for as whole words: ``x`` also stands in MiniMax-M3's ``]<]minimax[>[``.
    """
    for found in re.finditer(_whole(value), written) if value else ():
        at = found.start()
        low = max(0, at - 200 - len(key))
        named = next((low + each.start() for each in reversed(list(re.finditer(_whole(key), written[low:at])))), -1)
        between = written[named + len(key) : at]
        if named >= 0 and ("<" in between or ">" in between):
            before = written[max(0, named - 64) : named]
            opening = before[max(before.rfind("<"), 0) :]
            head = before[: len(before) - len(opening)]
            opening = ("\n" if head.endswith("\n") else "") + opening
            behind = written[found.end() : found.end() + 64]
            return opening, between, behind[: behind.find(">") + 1]
    return None


def _whole(text: str) -> str:
    """A pattern of a text that isn't part of a longer word."""
    before, behind = ("(?<![^\\W_])" if text[:1].isalnum() else ""), ("(?![^\\W_])" if text[-1:].isalnum() else "")
    return f"{before}{re.escape(text)}{behind}"
