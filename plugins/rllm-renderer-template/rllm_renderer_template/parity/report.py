"""What a parity check found, probe by probe: plain records that print, pickle and become JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from rllm_renderer_core.normal_form.ids import common_prefix

CONTEXT = 6
"""Ids shown on either side of the first that differs."""


class Outcome(str, Enum):
    """What came of one probe."""

    EQUAL = "equal"
    DIFFERS = "differs"
    DECLARED = "differs as documented"
    TEMPLATE_REFUSES = "the template refuses"
    RENDERER_REFUSES = "the renderer refuses"
    NOT_TRIED = "not tried"

    __str__ = str.__str__


@dataclass(frozen=True)
class Difference:
    """Where the reference's ids and the renderer's part."""

    index: int  # the first position at which they differ, or at which one of them ends
    expected: str  # the reference's ids around it, decoded
    got: str  # the renderer's
    expected_ids: tuple[int, ...]  # the reference's ids from ``index`` on, at most ``CONTEXT``
    got_ids: tuple[int, ...]  # the renderer's

    @classmethod
    def between(cls, expected: Sequence[int], got: Sequence[int], tokenizer: Any) -> Difference:
        index = common_prefix(expected, got)
        around, behind = slice(max(0, index - CONTEXT), index + CONTEXT), slice(index, index + CONTEXT)
        texts = decoded(tokenizer, expected[around]), decoded(tokenizer, got[around])
        return cls(index, *texts, tuple(expected[behind]), tuple(got[behind]))


@dataclass(frozen=True)
class ProbeResult:
    """One probe: the outcome, the difference where there is one, and why where it is refused or documented."""

    probe: str
    outcome: Outcome
    difference: Difference | None = None
    reason: str = ""
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": str(self.outcome), "tags": list(self.tags)}


@dataclass(frozen=True)
class ParityReport:
    """A renderer against a reference, probe by probe; ``str()`` is a readable list."""

    model: str
    renderer: str  # ``backend:renderer``
    reference: str
    results: tuple[ProbeResult, ...]  # in the order of ``PROBES``
    seconds: float = field(default=0.0, compare=False)  # of rendering

    def having(self, *outcomes: Outcome) -> tuple[ProbeResult, ...]:
        """The results with one of these outcomes."""
        return tuple(each for each in self.results if each.outcome in outcomes)

    @property
    def equal(self) -> int:
        """How many probes give the same ids."""
        return len(self.having(Outcome.EQUAL))

    @property
    def accepted(self) -> int:
        """How many probes the reference accepts, of those that were tried."""
        return len(self.results) - len(self.having(Outcome.TEMPLATE_REFUSES, Outcome.NOT_TRIED))

    @property
    def differences(self) -> tuple[ProbeResult, ...]:
        """Probes with other ids than the reference's, but for documented ones. A refusal isn't one: it gives no wrong ids."""
        return self.having(Outcome.DIFFERS)

    @property
    def complete(self) -> bool:
        """Whether there was time for every probe."""
        return not self.having(Outcome.NOT_TRIED)

    def __str__(self) -> str:
        lines = [f"{self.renderer} against {self.reference}: {self.summary()}"]
        for each in self.results:
            why = f": {each.reason}" if each.reason else ""
            lines.append(f"  {each.outcome.value:21} {each.probe}{why}")
            if each.difference is not None:
                lines += [f"    {line}" for line in describe(each.difference, self.reference, self.renderer)]
        return "\n".join(lines)

    def summary(self) -> str:
        """One line: "equal on 21 of 21 probes (the template refuses 1)"."""
        said = {Outcome.DECLARED: "differs as documented on", Outcome.NOT_TRIED: "no time for"}
        noted = (Outcome.TEMPLATE_REFUSES, Outcome.DECLARED, Outcome.RENDERER_REFUSES, Outcome.NOT_TRIED)
        counts = {outcome: len(self.having(outcome)) for outcome in noted}
        notes = [f"{said.get(outcome, outcome.value)} {count}" for outcome, count in counts.items() if count]
        return f"equal on {self.equal} of {self.accepted} probes" + (f" ({', '.join(notes)})" if notes else "")

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "model": self.model,
            "renderer": self.renderer,
            "reference": self.reference,
            "equal": self.equal,
            "accepted": self.accepted,
            "seconds": round(self.seconds, 4),
            "results": [each.to_dict() for each in self.results],
        }


# How ids are shown


def describe(difference: Difference, reference: str, renderer: str) -> list[str]:
    """Two lines: what each has around the first id that differs."""
    width = max(len(reference), len(renderer))
    return [
        f"{reference.ljust(width)} at id {difference.index}: {difference.expected!r}",
        f"{renderer.ljust(width)} at id {difference.index}: {difference.got!r}",
    ]


def decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of ids, or the ids themselves where the tokenizer can't decode them."""
    try:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))
    except Exception:
        return " ".join(map(str, ids))
