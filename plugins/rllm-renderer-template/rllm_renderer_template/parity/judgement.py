"""What ``resolve(parity=...)`` makes of a parity report: nothing, one warning, an error, or another renderer.

A name says what a model is called; its tokenizer's chat template says what it is. Under ``"prefer"`` a renderer that won by
name and differs from the template gives way to the first installed one, in order of priority, that is equal on every probe and
turn shape. The search costs something only where the winner differs.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rllm_renderer_core.errors import OptionError, ParityError, RendererError
from rllm_renderer_core.plugin import Detected, Query, Registered, rendering_probes
from rllm_renderer_core.plugin.discovery import warn_once
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.renderer.sources import LENGTH

from ..reasons import reason_of
from .comparison import Budget, parity, template_renderer
from .detection import MAY_REFUSE, Tried, passing
from .faults import faults_of
from .probes import PROBES
from .report import Outcome, ParityReport, describe

logger = logging.getLogger("rllm_renderer")


@dataclass(frozen=True)
class TemplateJudgement:
    """What the tokenizer's chat template says of one resolved renderer; see ``rllm_renderer_core.plugin.Judgement``."""

    renderer: ResolvedRenderer
    query: Query
    backends: Sequence[Registered]

    @cached_property
    def _report(self) -> ParityReport | OptionError:
        """The comparison, made once; the error where an option has no variable in the template."""
        try:
            return parity(self.renderer)
        except OptionError as error:
            return error

    @property
    def _name(self) -> str:
        return f"{self.renderer.backend}:{self.renderer.name}"

    def better(self, *, need_bridge: bool) -> Detected | None:
        """The first, in order of priority, that gives the template's ids on every probe and turn shape, and why it is taken;
        ``None`` where the winner is as the template is, nobody is, or time is up, which is warned about."""
        report, resolution, budget = self._report, self.renderer.resolution, Budget()
        if isinstance(report, OptionError) or not report.complete:
            return None
        if not (report.differences or self._refuses_shown_tools(report)):
            return None
        for tried in passing(self.backends, self.query, budget):
            if tried.name != self._name and (tried.coverage.has_bridge or not need_bridge):
                assert tried.report is not None
                why = f"{tried.report.summary()}, where {self._name}, {resolution.reason}, is {report.summary()}"
                return Detected(tried.registered, tried.coverage, why)
        if budget.over:
            warn_once(
                f"{resolution.model}: the search for a renderer that equals the chat template, which {self._name} doesn't, "
                f"stopped after {budget.seconds:g} s of rendering; fix: name a backend= and renderer="
            )
        return None

    def enforce(self, mode: str) -> None:
        """Say where the renderer differs from its tokenizer's chat template.

        Raises:
            ParityError: In mode ``"error"``, where ids differ; ``report`` has every probe.
        """
        renderer, report, budget = self.renderer, self._report, Budget()
        if isinstance(report, OptionError):
            logger.info("%s can't be compared with the chat template: %s", renderer, reason_of(report))
            return
        for result in report.having(Outcome.DECLARED):
            logger.info("%s differs from the chat template on %r, as documented: %s", renderer, result.probe, result.reason)
        if report.differences:
            text, fix = _said(renderer.resolution.model, report, self._alternative(budget))
            if mode == "error":
                raise ParityError(text, fix=fix, report=report)
            warn_once(f"{text}\n  fix: {fix}")
            return
        uncompared = f"{renderer.resolution.model}: {report.renderer} can't be compared with the chat template"
        if not report.complete:
            spent = f"{budget.seconds:g} s of rendering ({report.summary()})"
            warn_once(f"{uncompared} within {spent}; parity='off' saves the time")
        elif not report.accepted:
            warn_once(f"{uncompared}, which refuses every probe: {report.results[0].reason}")

    def faults(self) -> list[str]:
        return faults_of(self.renderer)

    def written(self) -> str:
        """A probe that is refused counts by the kind of its error."""
        whole, render = hashlib.sha256(), self.renderer.render_ids
        with rendering_probes():
            for probe in PROBES:
                try:
                    ids = render(probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt)
                    written = " ".join(map(str, ids))
                except RendererError as error:
                    written = type(error).__name__
                whole.update(f"{probe.name}: {written}\n".encode())
        return whole.hexdigest()[:LENGTH]

    def _refuses_shown_tools(self, report: ParityReport) -> bool:
        """Whether the renderer refuses tools that the template shows; a template that drops them shows none."""
        refused = {result.probe for result in report.having(Outcome.RENDERER_REFUSES)}
        probe = next((one for one in PROBES if one.name in refused and one.tools and MAY_REFUSE.isdisjoint(one.tags)), None)
        if probe is None:
            return False
        dropped = template_renderer(self.query).dropped(
            probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt
        )
        return not any(drop.what == "tool" for drop in dropped)

    def _alternative(self, budget: Budget) -> tuple[Tried, bool] | None:
        """A renderer that gives the template's ids, of the same backend or of one that was asked before it, and whether only
        without the model's name: what a backend knows of the name may be what is wrong here. Backends of lower priority
        aren't asked, so that what they wrap isn't imported for a warning."""
        own = self.renderer.backend
        least = next((one.backend.priority for one in self.backends if one.backend.name == own), None)
        asked = [one for one in self.backends if least is not None and one.backend.priority >= least]
        asked.sort(key=lambda one: one.backend.name != own)
        for unnamed in (False, True):
            for tried in passing(asked, replace(self.query, model="") if unnamed else self.query, budget):
                if unnamed or tried.name != self._name:
                    return tried, unnamed
        return None


def _said(model: str, report: ParityReport, other: tuple[Tried, bool] | None) -> tuple[str, str]:
    """The text of the warning or error, and the fix."""
    first = report.differences[0]
    assert first.difference is not None
    lines = [
        f"{model}: {report.renderer} differs from the tokenizer's chat template on "
        f"{len(report.differences)} of {report.accepted} probes, first on {first.probe!r}",
        *(f"  {line}" for line in describe(first.difference, "the template", report.renderer)),
    ]
    keep = f"parity='off' keeps {report.renderer}"
    if other is None:
        return "\n".join(lines), f"rllm-renderer detect --tokenizer PATH tries every renderer; {keep}"
    tried, unnamed = other
    assert tried.report is not None
    name, condition = ("model='', ", ", where the tokenizer isn't taken for this model's,") if unnamed else ("", "")
    lines.append(f"  {tried.name}{condition} is {tried.report.summary()}")
    fix = f"backend={tried.registered.backend.name!r}, renderer={tried.coverage.renderer!r}"
    return "\n".join(lines), f"{name}{fix}; {keep}"
