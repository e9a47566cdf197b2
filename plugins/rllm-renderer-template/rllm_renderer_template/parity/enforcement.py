"""What ``resolve(parity=...)`` makes of a parity report: nothing, one warning, an error, or another renderer.

A name says what a model is called; its tokenizer's chat template says what it is. Under ``"prefer"`` a renderer that won by
name and differs from the template gives way to the first installed one, in order of priority, that is equal on every probe and
turn shape. The search costs something only where the winner differs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from rllm_renderer_core.errors import OptionError, ParityError
from rllm_renderer_core.plugin import Query, Registered
from rllm_renderer_core.plugin.discovery import warn_once
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..reasons import reason_of
from .comparison import Budget, template_renderer
from .detection import MAY_REFUSE, Tried, by_priority, try_all
from .probes import PROBES
from .report import Outcome, ParityReport, describe

logger = logging.getLogger("rllm_renderer")

REFERENCE = "the template"
UNNAMED = ", where the tokenizer isn't taken for this model's,"


def enforce(
    renderer: ResolvedRenderer, report: ParityReport | OptionError, query: Query, mode: str, registered: Sequence[Registered]
) -> None:
    """Say where a renderer differs from its tokenizer's chat template.

    Args:
        renderer: What was resolved.
        report: Its comparison with the template, or why there is none.
        query: What it was resolved by.
        mode: ``"prefer"``, ``"warn"`` or ``"error"``.
        registered: Backends among which to look for a renderer that doesn't differ; those of lower priority aren't asked,
            so that what they wrap isn't imported for a warning.

    Raises:
        ParityError: In mode ``"error"``, where ids differ; ``report`` has every probe.
    """
    budget = Budget()
    if isinstance(report, OptionError):
        logger.info("%s can't be compared with the chat template: %s", renderer, reason_of(report))
        return
    for documented in report.having(Outcome.DECLARED):
        logger.info("%s differs from the chat template on %r, as documented: %s", renderer, documented.probe, documented.reason)
    if report.differences:
        text, fix = _said(renderer, report, _alternative(renderer, query, registered, budget))
        if mode == "error":
            raise ParityError(text, fix=fix, report=report)
        warn_once(f"{text}\n  fix: {fix}")
    elif not report.complete:
        warn_once(
            f"{renderer.resolution.model}: {report.renderer} can't be compared with the chat template within "
            f"{budget.seconds:g} s of rendering ({report.summary()}); parity='off' saves the time"
        )
    elif not report.accepted:
        warn_once(
            f"{renderer.resolution.model}: {report.renderer} can't be compared with the chat template, which refuses every "
            f"probe: {report.results[0].reason}"
        )


def preferred(
    renderer: ResolvedRenderer,
    report: ParityReport | OptionError,
    query: Query,
    registered: Sequence[Registered],
    *,
    need_bridge: bool = False,
) -> tuple[Tried, str] | None:
    """Who serves the model in place of a renderer that won by name and that the tokenizer's chat template disproves.

    Args:
        renderer: What won.
        report: Its comparison with the template, or why there is none.
        query: What it won by.
        registered: Backends among which to look, in any order.
        need_bridge: Whether only renderers with a bridge come into question.

    Returns:
        The first of them, in order of priority, that gives the template's ids on every probe and turn shape, and why it is
        taken; ``None`` where the winner is as the template is, nobody is, or time is up, which is warned about.
    """
    if isinstance(report, OptionError) or not report.complete:
        return None
    budget = Budget()
    if not (report.differences or _refuses_shown_tools(report, query)):
        return None
    mine = f"{renderer.backend}:{renderer.name}"
    for tried in chain.from_iterable(try_all(each, query, budget) for each in by_priority(registered)):
        if tried.passed and tried.name != mine and (tried.coverage.has_bridge or not need_bridge):
            assert tried.report is not None
            return tried, f"{tried.report.summary()}, where {mine}, {renderer.resolution.reason}, is {report.summary()}"
    if budget.over:
        warn_once(
            f"{renderer.resolution.model}: the search for a renderer that equals the chat template, which {mine} doesn't, "
            f"stopped after {budget.seconds:g} s of rendering; fix: name a backend= and renderer="
        )
    return None


def _refuses_shown_tools(report: ParityReport, query: Query) -> bool:
    """Whether the renderer refuses tools that the template shows; a template that drops them shows none."""
    refused = {
        each.probe
        for each in report.having(Outcome.RENDERER_REFUSES)
        if "tools" in each.tags and MAY_REFUSE.isdisjoint(each.tags)
    }
    probe = next((probe for probe in PROBES if probe.name in refused and probe.tools), None)
    if probe is None:
        return False
    dropped = template_renderer(query).dropped(probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt)
    return not any(each.what == "tool" for each in dropped)


def _said(renderer: ResolvedRenderer, report: ParityReport, other: tuple[Tried, bool] | None) -> tuple[str, str]:
    """The text of the warning or error, and the fix."""
    first = report.differences[0]
    assert first.difference is not None
    lines = [
        f"{renderer.resolution.model}: {report.renderer} differs from the tokenizer's chat template on "
        f"{len(report.differences)} of {report.accepted} probes, first on {first.probe!r}",
        *(f"  {line}" for line in describe(first.difference, REFERENCE, report.renderer)),
    ]
    keep = f"parity='off' keeps {report.renderer}"
    if other is None:
        return "\n".join(lines), f"rllm-renderer detect --tokenizer PATH tries every renderer; {keep}"
    tried, unnamed = other
    assert tried.report is not None
    lines.append(f"  {tried.name}{UNNAMED if unnamed else ''} is {tried.report.summary()}")
    fix = f"backend={tried.registered.backend.name!r}, renderer={tried.coverage.renderer!r}"
    name = "model='', " if unnamed else ""
    return "\n".join(lines), f"{name}{fix}; {keep}"


def _alternative(
    renderer: ResolvedRenderer, query: Query, registered: Sequence[Registered], budget: Budget
) -> tuple[Tried, bool] | None:
    """A renderer that gives the template's ids, of the same backend or of one that was asked before it, and whether only
    without the model's name: what a backend knows of the name may be what is wrong here."""
    own = next((each.backend.priority for each in registered if each.backend.name == renderer.backend), None)
    asked = [each for each in by_priority(registered) if own is not None and each.backend.priority >= own]
    asked.sort(key=lambda each: each.backend.name != renderer.backend)
    for unnamed in (False, True):
        other = replace(query, model="") if unnamed else query
        for tried in chain.from_iterable(try_all(each, other, budget) for each in asked):
            if tried.passed and (unnamed or tried.name != f"{renderer.backend}:{renderer.name}"):
                return tried, unnamed
    return None
