"""Token parity: whether a renderer gives the ids that the tokenizer's chat template gives, probe by probe.

The reference is any function from messages, tools and opener to ids; ``template_ids`` is the one over the tokenizer's own
template, with the variables that the options of ``resolve`` stand for. Ids decide, nothing else; text is decoded only to be
shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rllm_renderer_core.errors import RendererError, TokenizerError
from rllm_renderer_core.normal_form.tokenizer import added_tokens, chat_template, memory_of
from rllm_renderer_core.plugin import Coverage, Match, Query, rendering_probes
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..chat_template.backend import ChatTemplateBackend
from ..chat_template.names import TEMPLATE_BACKEND
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
        with rendering_probes():
            yield
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
    """Every probe through both, as it is tried.

    Args:
        got: The renderer.
        expected: The reference.
        tokenizer: Decodes what is shown.
        deviations: Names or tags of probes to why they differ on purpose.
        budget: Stops the comparison when it is spent.
        probes: What to render.
    """
    budget = budget or Budget()
    return (_result(probe, got, expected, tokenizer, deviations or {}, budget) for probe in probes)


def _result(
    probe: Probe, got: Ids, expected: Ids, tokenizer: Any, deviations: Mapping[str, str], budget: Budget
) -> ProbeResult:
    tags = tuple(sorted(probe.tags))
    if budget.over:
        return ProbeResult(probe.name, Outcome.NOT_TRIED, None, f"{budget.seconds:g} s were over", tags)
    with budget.spent():
        wanted = expected(probe)
        if isinstance(wanted, str):
            taken = "" if isinstance(got(probe), str) else "; the renderer takes it"
            return ProbeResult(probe.name, Outcome.TEMPLATE_REFUSES, None, wanted + taken, tags)
        ids = got(probe)
    if isinstance(ids, str):
        return ProbeResult(probe.name, Outcome.RENDERER_REFUSES, None, ids, tags)
    if ids == wanted:
        return ProbeResult(probe.name, Outcome.EQUAL, tags=tags)
    reason = next((deviations[key] for key in (probe.name, *tags) if key in deviations), None)
    outcome = Outcome.DIFFERS if reason is None else Outcome.DECLARED
    return ProbeResult(probe.name, outcome, Difference.between(wanted, ids, tokenizer), reason or "", tags)


def renderer_ids(renderer: ResolvedRenderer) -> Ids:
    """What a renderer makes of a probe."""

    def ids(probe: Probe) -> list[int] | str:
        try:
            return renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.opener)
        except RendererError as error:
            return str(error).splitlines()[0]

    return ids


def template_renderer(query: Query) -> ResolvedRenderer:
    """The tokenizer's chat template under the core's contract, with the seam as its bridge: the oracle of all checks.

    Raises:
        OptionError: An option of the query has no variable in this template.
    """
    query = Query(
        query.model,
        query.tokenizer,
        thinking=query.thinking,
        thinking_retention=query.thinking_retention,
        chat_template_kwargs=query.chat_template_kwargs,
        date=query.date,
    )
    coverage = Coverage(TEMPLATE_BACKEND, Match.FALLBACK, True, "the reference", by_template=True)
    resolution = Resolution(query.model, TEMPLATE_BACKEND, TEMPLATE_BACKEND, "fallback", True)
    return ResolvedRenderer(ChatTemplateBackend(), query, coverage, resolution)


def template_ids(query: Query) -> Ids:
    """What the tokenizer's chat template makes of a probe; remembered as long as the tokenizer lives.

    Raises:
        OptionError: An option of the query has no variable in this template.
    """
    known = remembered(query, "template")
    render = None if all(probe.name in known for probe in PROBES) else renderer_ids(template_renderer(query))

    def ids(probe: Probe) -> list[int] | str:
        if probe.name not in known and render is not None:
            known[probe.name] = render(probe)
        found: list[int] | str = known[probe.name]
        return found

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
    key = replace(renderer.resolution, options=options)
    known = remembered(query, "reports")
    if key not in known:
        if "marker_text" in renderer.resolution.options:
            renderer = renderer.with_marker_text("allow")
        budget = budget or Budget()
        before = budget.left
        with budget.spent():
            expected = template_ids(query)
        found = compare(renderer_ids(renderer), expected, query.tokenizer, deviations=renderer.deviations(), budget=budget)
        name = f"{renderer.backend}:{renderer.name}"
        report = ParityReport(query.model, name, TEMPLATE_TEXT, tuple(found), before - budget.left)
        if not report.complete:
            return report
        known[key] = report
    out: ParityReport = known[key]
    return out


def remembered(query: Query, what: str) -> dict[Any, Any]:
    """A dict that lives as long as the tokenizer, for this template, these added tokens and these options: plain data alone."""
    template = chat_template(query.tokenizer) or ""
    options = json.dumps(
        [query.thinking, dict(query.chat_template_kwargs), query.thinking_retention, type(query.image_processor).__name__],
        sort_keys=True,
        default=repr,
    )
    key = (template, tuple(added_tokens(query.tokenizer).items()), options, query.date)
    found: dict[Any, Any] = memory_of(query.tokenizer, what).setdefault(key, {})
    return found
