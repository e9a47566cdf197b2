"""Every backend's verdict on a model, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import PluginError
from ..plugin import Coverage, Query, Registered, Unavailable
from ..plugin.answers import ask, candidates, told
from ..plugin.discovery import Installed
from ..plugin.distributions import absent
from .request import Request


@dataclass(frozen=True)
class Verdict:
    """One backend's answer.

    ``verdict`` is ``"covers"``, ``"unavailable"``, ``"no match"``, ``"not installed"``, or the state of a plugin that
    can't be used.
    """

    backend: str
    distribution: str
    version: str
    priority: int | None
    verdict: str
    renderer: str = ""
    match: str = ""
    has_bridge: bool = False
    reason: str = ""
    fix: str = ""
    by_experiment: bool = False

    @property
    def bridge(self) -> str:
        """Whether it bridges, in a word or two."""
        if self.verdict != "covers":
            return "-"
        return ("by experiment" if self.by_experiment else "yes") if self.has_bridge else "no"


@dataclass(frozen=True)
class Explanation:
    """Every backend's verdict on a model, and the winner's name (``None`` where there is none); ``str()`` is a table."""

    model: str
    winner: str | None
    verdicts: tuple[Verdict, ...]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "model": self.model,
            "winner": self.winner,
            "reason": self.reason,
            "verdicts": [asdict(v) for v in self.verdicts],
        }

    def __str__(self) -> str:
        rows = [("", "backend", "priority", "verdict", "renderer", "bridge", "reason")]
        for each in self.verdicts:
            covers = each.verdict == "covers"
            rows.append(
                (
                    "*" if each.backend == self.winner else "",
                    each.backend,
                    "" if each.priority is None else str(each.priority),
                    f"{each.verdict} ({each.match})" if covers else each.verdict,
                    each.renderer or "-",
                    each.bridge,
                    "; ".join(filter(None, (each.reason, each.fix and f"fix: {each.fix}"))),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        lines = [
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
            for row in rows
        ]
        return "\n".join([f"{self.model or '(no name)'}: {self.reason}", *lines])


def explanation(
    request: Request,
    tokenizer: Any,
    installed: Installed,
    winner: str | None,
    reason: str,
    detected: Coverage | None = None,
) -> Explanation:
    """The table of verdicts. ``detected`` is the winner's coverage, where the chat template decided and not the name."""
    query = request.query(tokenizer)
    ordered = sorted(installed.registered, key=lambda each: (-each.backend.priority, each.backend.name))
    verdicts = [_verdict(each, query, detected if each.backend.name == winner else None) for each in ordered]
    for plugin in installed.found:
        if plugin.error is not None:
            text, fix = str(plugin.error).splitlines()[0], plugin.error.fix or ""
            verdicts.append(Verdict(plugin.name, plugin.distribution, plugin.version, None, plugin.state, reason=text, fix=fix))
    for name, dist in installed.missing():
        state, fix = absent(dist)
        verdicts.append(Verdict(name, dist, "", None, state, fix=fix))
    return Explanation(request.model, winner, tuple(verdicts), reason)


def _verdict(each: Registered, query: Query, detected: Coverage | None) -> Verdict:
    base = (each.backend.name, each.distribution, each.version, each.backend.priority)
    try:
        answer = detected or ask(each, query)
        if answer is None and query.tokenizer is not None:
            candidates(each, query)  # what the search by the chat template asks it
        parsing = ""
        if isinstance(answer, Coverage) and query.tokenizer is not None:
            parsing, _ = told(each, query, answer)
    except PluginError as error:
        return Verdict(*base, "broken", reason=str(error).splitlines()[0], fix=error.fix or "")
    if isinstance(answer, Coverage):
        match = answer.match.name.lower()
        reason = "; ".join(filter(None, (answer.reason, parsing)))
        return Verdict(*base, "covers", answer.renderer, match, answer.has_bridge, reason, "", answer.by_experiment)
    if isinstance(answer, Unavailable):
        return Verdict(*base, "unavailable", reason=answer.reason, fix=answer.fix)
    return Verdict(*base, "no match")
