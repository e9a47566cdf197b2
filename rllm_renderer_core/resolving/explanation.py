"""Every backend's verdict on a model, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import PluginError
from ..plugin import Coverage, Query, Registered, Unavailable
from ..plugin.answers import ask, candidates, deviations, parsing
from ..plugin.discovery import Installed
from ..plugin.distributions import absent
from .request import Request
from .selection import Answered


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
        return asdict(self)

    def __str__(self) -> str:
        rows = [("", "backend", "priority", "verdict", "renderer", "bridge", "reason")]
        for verdict in self.verdicts:
            covers = verdict.verdict == "covers"
            rows.append(
                (
                    "*" if verdict.backend == self.winner else "",
                    verdict.backend,
                    "" if verdict.priority is None else str(verdict.priority),
                    f"{verdict.verdict} ({verdict.match})" if covers else verdict.verdict,
                    verdict.renderer or "-",
                    verdict.bridge,
                    "; ".join(filter(None, (verdict.reason, verdict.fix and f"fix: {verdict.fix}"))),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        lines = [
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
            for row in rows
        ]
        return "\n".join([f"{self.model or '(no name)'}: {self.reason}", *lines])


def explanation(request: Request, tokenizer: Any, installed: Installed, winner: Answered | None, reason: str) -> Explanation:
    """The table of verdicts; that of the winner is its coverage, whether its backend or the chat template said so."""
    query = request.query(tokenizer)
    ordered = sorted(installed.registered, key=lambda registered: (-registered.backend.priority, registered.backend.name))
    verdicts = [_verdict(registered, query, winner) for registered in ordered]
    for plugin in installed.plugins:
        if plugin.error is not None:
            text, fix = str(plugin.error).splitlines()[0], plugin.error.fix or ""
            verdicts.append(Verdict(plugin.name, plugin.distribution, plugin.version, None, plugin.state, reason=text, fix=fix))
    for name, distribution in installed.missing():
        state, fix = absent(distribution)
        verdicts.append(Verdict(name, distribution, "", None, state, fix=fix))
    return Explanation(request.model, winner and winner[0].backend.name, tuple(verdicts), reason)


def _verdict(registered: Registered, query: Query, winner: Answered | None) -> Verdict:
    source = (registered.backend.name, registered.distribution, registered.version, registered.backend.priority)
    try:
        answer = winner[1] if winner is not None and winner[0] == registered else ask(registered, query)
        if answer is None and query.tokenizer is not None:
            candidates(registered, query)  # what the search by the chat template asks it
        if isinstance(answer, Coverage):
            deviations(registered, answer)  # what a comparison with the template asks it
            reads = parsing(registered, query, answer) if query.tokenizer is not None else ""
            reason = "; ".join(filter(None, (answer.reason, reads)))
            match = answer.match.name.lower()
            return Verdict(*source, "covers", answer.renderer, match, answer.has_bridge, reason, "", answer.by_experiment)
    except PluginError as error:
        return Verdict(*source, "broken", reason=str(error).splitlines()[0], fix=error.fix or "")
    if isinstance(answer, Unavailable):
        return Verdict(*source, "unavailable", reason=answer.reason, fix=answer.fix)
    return Verdict(*source, "no match")
