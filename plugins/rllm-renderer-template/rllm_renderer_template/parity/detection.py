"""Detection: the renderer of a checkpoint that no map lists, found by what its tokenizer's chat template renders.

The backends' candidates are tried in order of priority. One wins only if it gives the template's ids on every probe that the
template accepts, and its bridge agrees on each turn shape. The trying stops behind the first backend that has a winner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rllm_renderer_core.errors import OptionError, PluginError
from rllm_renderer_core.normal_form.tokenizer import chat_template
from rllm_renderer_core.plugin import Coverage, Match, Query, Registered
from rllm_renderer_core.plugin.hooks import ask, candidates
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.resolving.verdicts import refused_option

from ..memory import options_of, remembered
from ..reasons import reason_of
from .bridges import BridgeResult, bridges_differ, compare_bridges
from .comparison import Budget, once, parity, template_ids, template_renderer
from .probes import PROBES
from .report import Outcome, ParityReport

LEAST_PROBES = (len(PROBES) + 1) // 2
"""How many probes the template must accept: one that refuses most conversations proves too little."""

MAY_REFUSE = frozenset({"order", "inline", "letters"})
"""Tags of the probes that a winner may refuse: what few conversations have. A refusal is never wrong ids."""

MAY_DECLARE = "inline"
"""Tag of the probes on which a winner may differ where it documents that: whether text that spells a marker becomes one is a
choice about texts, and tells nothing of the format."""

NOT_EQUAL = (Outcome.DIFFERS, Outcome.DECLARED, Outcome.RENDERER_REFUSES)


@dataclass(frozen=True)
class Tried:
    """One candidate."""

    registered: Registered
    coverage: Coverage  # the backend's answer when it is asked for this renderer by name, with ``Match.PARITY``
    report: ParityReport | None = None  # ``None`` where it couldn't be built
    bridges: tuple[BridgeResult, ...] = ()  # where all probes are equal and it has a bridge
    error: str = ""  # why it couldn't be built
    seconds: float = 0.0  # of building and rendering

    @property
    def name(self) -> str:
        """``backend:renderer``."""
        return f"{self.registered.backend.name}:{self.coverage.renderer}"

    @property
    def renders(self) -> bool:
        """Whether it gives the template's ids on every probe that the template accepts."""
        if self.report is None or not self.report.complete or self.report.accepted < LEAST_PROBES:
            return False
        allowed = {Outcome.RENDERER_REFUSES: MAY_REFUSE, Outcome.DECLARED: {MAY_DECLARE}, Outcome.DIFFERS: set[str]()}
        return all(not allowed[result.outcome].isdisjoint(result.tags) for result in self.report.having(*NOT_EQUAL))

    @property
    def passed(self) -> bool:
        """Whether it wins: all probes and all bridges."""
        return self.renders and not bridges_differ(self.bridges)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "backend": self.registered.backend.name,
            "renderer": self.coverage.renderer,
            "passed": self.passed,
            "error": self.error or None,
            "seconds": round(self.seconds, 4),
            "report": None if self.report is None else self.report.to_dict(),
            "bridges": [each.to_dict() for each in self.bridges],
        }


@dataclass(frozen=True)
class Detection:
    """Every candidate that was tried, in order, and what came of it."""

    tried: tuple[Tried, ...]
    outcome: str  # one line: what was found, or why nothing was
    winner: Tried | None = None  # the first that passed
    complete: bool = True  # whether there was time for all that should be tried


def detect(registered: Sequence[Registered], query: Query, *, budget: Budget | None = None) -> Detection:
    """The renderer whose ids equal the tokenizer's chat template, with options of the query that it must honour, all but
    ``renderer``. Backends are tried in the order given, by priority; the search stops when the budget is spent."""
    key = query.model, *((each.backend.name, each.distribution, each.version) for each in registered)
    known = remembered(query.tokenizer, "detections", options_of(query))
    return once(known, key, lambda: _detect(registered, query, budget or Budget()), lambda made: made.complete)


def _detect(registered: Sequence[Registered], query: Query, budget: Budget) -> Detection:
    why_not = refusal(query, budget)
    if why_not is not None:
        return Detection((), why_not, complete=not budget.over)
    tried: list[Tried] = []
    for backend in registered:
        tried += try_all(backend, query, budget)
        winner = next((one for one in tried if one.passed), None)
        if winner is not None:
            others = ", ".join(one.name for one in tried if one.passed and one is not winner)
            assert winner.report is not None
            return Detection(tuple(tried), winner.report.summary() + (f"; so is {others}" if others else ""), winner)
        if budget.over:
            return Detection(tuple(tried), _slow(budget), complete=False)
    return Detection(tuple(tried), nearest(tried))


def refusal(query: Query, budget: Budget) -> str | None:
    """Why nothing can be found by this template, or ``None``."""
    if chat_template(query.tokenizer) is None:
        return "the tokenizer has no chat template to compare with"
    try:
        with budget.spent():
            expected = template_ids(query)
    except OptionError as error:
        return reason_of(error)
    refused = []
    for probe in PROBES:
        if budget.over:
            return _slow(budget)
        with budget.spent():
            ids = expected(probe)
        if isinstance(ids, str):
            refused.append(ids)
    if len(PROBES) - len(refused) < LEAST_PROBES:
        return f"the chat template refuses {len(refused)} of {len(PROBES)} probes, which proves too little: {refused[0]}"
    return None


def try_all(
    registered: Registered, query: Query, budget: Budget, before: Callable[[str], object] = lambda name: None
) -> Iterator[Tried]:
    """One backend's candidates, until the budget is spent. ``before`` is called with the name of each before it is tried."""
    if budget.over:
        return
    backend = registered.backend
    try:
        named = [candidate.renderer for candidate in candidates(registered, replace(query, renderer=None))]
    except PluginError as error:
        yield Tried(registered, Coverage("?", Match.PARITY, False, ""), error=reason_of(error))
        return
    known = remembered(query.tokenizer, "tried", options_of(query))
    for name in named:
        if budget.over:
            return
        before(f"{backend.name}:{name}")
        key = query.model, backend.name, name, registered.distribution, registered.version
        named_query = replace(query, renderer=name)
        yield once(known, key, partial(_try, registered, named_query, budget), lambda _: not budget.over)


def _try(registered: Registered, query: Query, budget: Budget) -> Tried:
    from .comparison import clock

    start, backend = clock(), registered.backend
    unknown = Tried(registered, Coverage(str(query.renderer), Match.PARITY, False, ""))
    try:
        answer = ask(registered, query)
        if not isinstance(answer, Coverage):
            return replace(unknown, error="isn't covered by its own name" if answer is None else answer.reason)
        tried = Tried(registered, replace(answer, match=Match.PARITY))
        option = refused_option(backend, query)
        if option is not None:
            return replace(tried, error=f"can't honour {option[0]}={option[1]!r}")
        # Named, as a pin would name it: what is checked is what the pin gives.
        plugin = f"{registered.distribution} {registered.version}"
        resolution = Resolution(query.model, backend.name, answer.renderer, "named", answer.has_bridge, plugin=plugin)
        renderer = ResolvedRenderer(backend, query, answer, resolution)
    except (Exception, SystemExit) as error:
        return replace(unknown, error=reason_of(error), seconds=clock() - start)
    tried = replace(tried, report=parity(renderer, budget=budget))
    if tried.renders and answer.has_bridge:
        tried = replace(tried, bridges=tuple(compare_bridges(renderer, template_renderer(query), budget=budget)))
    return replace(tried, seconds=clock() - start)


def passing(registered: Iterable[Registered], query: Query, budget: Budget) -> Iterator[Tried]:
    """The candidates of these backends that pass, in order, until the budget is spent."""
    return (tried for backend in registered for tried in try_all(backend, query, budget) if tried.passed)


def _slow(budget: Budget) -> str:
    return f"the search stopped after {budget.seconds:g} s of rendering: a slow tokenizer"


def nearest(tried: Sequence[Tried]) -> str:
    """Which candidate came closest, and where it first differs."""
    best = max(tried, key=lambda each: -1 if each.report is None else each.report.equal, default=None)
    report = None if best is None else best.report
    if best is None or report is None:
        return "no installed backend has a renderer that could be tried on this tokenizer"
    odd = report.having(*NOT_EQUAL)
    what, difference = (repr(odd[0].probe), odd[0].difference) if odd else ("too few probes", None)
    differing = [bridge for bridge in best.bridges if bridge.difference is not None]
    if differing:
        what, difference = f"the bridge of {differing[0].shape!r}", differing[0].difference
    text = f"no renderer equals the chat template; the nearest is {best.name}, {report.summary()}, and not on {what}"
    if difference is not None:
        text += f": {difference.expected!r} in the template, {difference.got!r} in its ids, at id {difference.index}"
    return text
