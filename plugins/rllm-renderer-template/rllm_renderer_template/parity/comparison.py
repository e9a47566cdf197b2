"""Token parity: whether a renderer gives the ids that the tokenizer's chat template gives, probe by probe.

The reference is any function from a probe to ids; ``template_ids`` is the one over the tokenizer's own template, with the
variables that the options of ``resolve`` stand for. Ids decide, nothing else; text is decoded only to be shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from rllm_renderer_core.errors import RendererError, TokenizerError
from rllm_renderer_core.normal_form.tokenizer import chat_template
from rllm_renderer_core.plugin import Coverage, Match, Query, rendering_probes
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..chat_template.backend import ChatTemplateBackend
from ..chat_template.template import TEMPLATE_BACKEND
from ..memory import options_of, remembered
from ..reasons import reason_of
from .probes import PROBES, Probe
from .report import Difference, Outcome, ParityReport, ProbeResult

Ids = Callable[[Probe], "list[int] | str"]
"""A probe to ids, or to the reason why it is refused."""

BUDGET_SECONDS = 10.0
"""Seconds of rendering after which a check or a detection stops; a usual one takes a hundredth of that. Imports and the
building of renderers don't count, so that a cold disk changes no result."""

TEMPLATE_TEXT = "the chat template"
"""What the reference is called in reports."""

clock = time.thread_time
"""Seconds of this thread alone, so that a busy machine changes no result."""


class Budget:
    """Seconds of rendering that are left."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = self.left = BUDGET_SECONDS if seconds is None else seconds

    @property
    def over(self) -> bool:
        return self.left <= 0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Around the rendering of probes: counts its seconds."""
        start = clock()
        try:
            with rendering_probes():
                yield
        finally:
            self.left -= clock() - start


def compare(
    got: Ids,
    expected: Ids,
    tokenizer: Any,
    *,
    deviations: Mapping[str, str] | None = None,
    budget: Budget | None = None,
    probes: Iterable[Probe] = PROBES,
) -> Iterator[ProbeResult]:
    """Every probe through renderer and reference, as it is tried, until the budget is spent. ``deviations`` says, by names or
    tags of probes, why they differ on purpose."""
    budget = budget or Budget()
    for probe in probes:
        tags, difference, reason = tuple(sorted(probe.tags)), None, ""
        if budget.over:
            yield ProbeResult(probe.name, Outcome.NOT_TRIED, None, f"{budget.seconds:g} s were over", tags)
            continue
        with budget.spent():
            wanted, ids = expected(probe), got(probe)
        if isinstance(wanted, str):
            outcome, reason = Outcome.TEMPLATE_REFUSES, wanted + ("" if isinstance(ids, str) else "; the renderer takes it")
        elif isinstance(ids, str):
            outcome, reason = Outcome.RENDERER_REFUSES, ids
        elif ids == wanted:
            outcome = Outcome.EQUAL
        else:
            documented = [deviations[key] for key in (probe.name, *tags) if key in deviations] if deviations else []
            outcome, reason = (Outcome.DECLARED, documented[0]) if documented else (Outcome.DIFFERS, "")
            difference = Difference.between(wanted, ids, tokenizer)
        yield ProbeResult(probe.name, outcome, difference, reason, tags)


def renderer_ids(renderer: ResolvedRenderer) -> Ids:
    """What a renderer makes of a probe."""

    def ids(probe: Probe) -> list[int] | str:
        try:
            return renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt)
        except RendererError as error:
            return reason_of(error)

    return ids


def template_renderer(query: Query) -> ResolvedRenderer:
    """The tokenizer's chat template under the core's contract, with ``SeamBridge`` as its bridge: the oracle of all checks.

    Raises:
        OptionError: An option of the query has no variable in this template.
    """
    query = replace(query, renderer=None, backend=None, image_processor=None, template_bridge=True)
    coverage = Coverage(TEMPLATE_BACKEND, Match.FALLBACK, True, "the reference", by_template=True)
    resolution = Resolution(query.model, TEMPLATE_BACKEND, TEMPLATE_BACKEND, "fallback", True)
    return ResolvedRenderer(ChatTemplateBackend(), query, coverage, resolution)


def template_ids(query: Query) -> Ids:
    """What the tokenizer's chat template makes of a probe; remembered as long as the tokenizer lives.

    Raises:
        OptionError: An option of the query has no variable in this template.
    """
    known: dict[str, list[int] | str] = remembered(query.tokenizer, "template", options_of(query))
    render = None if all(probe.name in known for probe in PROBES) else renderer_ids(template_renderer(query))

    def ids(probe: Probe) -> list[int] | str:
        if probe.name not in known and render is not None:
            known[probe.name] = render(probe)
        return known[probe.name]

    return ids


def parity(renderer: ResolvedRenderer, *, budget: Budget | None = None) -> ParityReport:
    """A resolved renderer against its tokenizer's chat template, with the variables that its options stand for.

    The same report is returned for the same template, tokenizer, options and resolution, without rendering again. Control
    tokens spelled in a text are compared as the template writes them, whatever ``marker_text`` says: a renderer that keeps
    them text differs from the template because it was asked to.

    Raises:
        TokenizerError: The tokenizer has no chat template.
        OptionError: An option has no variable in this template, so that there is nothing to compare with.
    """
    query = renderer.query
    if chat_template(query.tokenizer) is None:
        raise TokenizerError("the tokenizer has no chat template to compare with")
    options = {name: value for name, value in renderer.resolution.options.items() if name != "marker_text"}
    budget = budget or Budget()

    def compared() -> ParityReport:
        checked = renderer.with_marker_text("allow") if "marker_text" in renderer.resolution.options else renderer
        before = budget.left
        with budget.spent():
            expected = template_ids(query)
        results = tuple(
            compare(renderer_ids(checked), expected, query.tokenizer, deviations=checked.deviations(), budget=budget)
        )
        return ParityReport(query.model, f"{checked.backend}:{checked.name}", TEMPLATE_TEXT, results, before - budget.left)

    known = remembered(query.tokenizer, "reports", options_of(query))
    return once(known, replace(renderer.resolution, options=options), compared, lambda report: report.complete)


Result = TypeVar("Result")


def once(known: dict[Any, Any], key: Any, make: Callable[[], Result], whole: Callable[[Result], bool]) -> Result:
    """A result for this key, made where it isn't ``known``; what isn't whole, as time was up, isn't remembered."""
    result: Result = known[key] if key in known else make()
    if whole(result):
        known[key] = result
    return result
