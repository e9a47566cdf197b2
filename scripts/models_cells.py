"""Cells, footnotes and rows that the tables of docs/models.md and docs/models-in-detail.md share, in the same few words."""

# ruff: noqa: T201

from __future__ import annotations

import datetime
import pathlib
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EQUAL, DECLINED, DIFFERS, NOT_APPLICABLE = "equal", "declined", "differs", "not applicable"
OUTCOMES = (EQUAL, DIFFERS, DECLINED, NOT_APPLICABLE)


@dataclass(frozen=True)
class Compared:
    """One comparison: what was compared, what came of it, and why it isn't equal, where that is known."""

    what: str
    outcome: str
    why: str = ""


@dataclass
class Table:
    """A table that prints itself row by row, then its footnotes."""

    header: tuple[str, ...]
    notes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        print(f"| {' | '.join(self.header)} |")
        print("|" + "---|" * len(self.header))

    def row(self, *cells: str) -> None:
        """Print a row."""
        print(f"| {' | '.join(cells)} |".replace("\n", " "), flush=True)

    def tally(self, compared: Iterable[Compared]) -> str:
        """``9 equal`` or ``7 equal, 2 declined [1]``: what isn't equal is named in a footnote."""
        compared = list(compared)
        counts = Counter(each.outcome for each in compared)
        cells = []
        for outcome in (each for each in OUTCOMES if counts[each]):
            by_reason: dict[str, list[str]] = {}
            for each in compared:
                if each.outcome == outcome:
                    by_reason.setdefault(each.why, []).append(each.what)
            notes = [self._note(outcome, sorted(set(what)), why) for why, what in by_reason.items()] if outcome != EQUAL else []
            word = "differ" if outcome == DIFFERS and counts[outcome] > 1 else outcome
            cells.append(" ".join([f"{counts[outcome]} {word}", *notes]))
        return ", ".join(cells)

    def _note(self, outcome: str, what: list[str], why: str) -> str:
        text = f"{outcome}: {', '.join(what)}" + (f" ({why})" if why else "")
        return f"[{self.notes.setdefault(text, len(self.notes) + 1)}]"

    def end(self) -> None:
        """Print the footnotes."""
        print()
        for text, number in self.notes.items():
            print(f"{number}. {text}")


def wanted(model: str) -> bool:
    """Whether a model is asked for, by a part of its name among the arguments; without any, all are."""
    return len(sys.argv) == 1 or any(part in model for part in sys.argv[1:])


def measured_with(*distributions: str) -> str:
    """The line above a table: the day, the script, and the versions of what was measured."""
    from rllm_renderer_core.plugin.discovery import installed_version

    found = [f"{name} {version}" for name in distributions if (version := installed_version(name))]
    script = pathlib.Path(sys.argv[0]).name
    return f"Measured on {datetime.date.today()} by `scripts/{script}` with {', '.join(found)}.\n"


def reason_of(error: Any) -> str:
    """The first line of a decline or an error, without what differs from case to case."""
    return str(getattr(error, "reason", error)).splitlines()[0]
