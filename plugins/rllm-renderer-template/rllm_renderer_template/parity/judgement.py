"""What the tokenizer's chat template says of one resolved renderer: the answer of the hook ``rllm_renderer_judge``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rllm_renderer_core.plugin import Detected, Query, Registered
from rllm_renderer_core.renderer.resolved import ResolvedRenderer


@dataclass(frozen=True)
class TemplateJudgement:
    """See ``rllm_renderer_core.plugin.Judgement``.

    Args:
        renderer: What was resolved.
        query: What it was resolved by.
        backends: Those among which to look for a renderer that doesn't differ.
    """

    renderer: ResolvedRenderer
    query: Query
    backends: Sequence[Registered]

    def better(self, *, need_bridge: bool) -> Detected | None:
        from .enforcement import preferred

        found = preferred(self.renderer, self.query, self.backends, need_bridge=need_bridge)
        if found is None:
            return None
        tried, why = found
        return Detected(tried.registered, tried.coverage, why)

    def enforce(self, mode: str) -> None:
        from .enforcement import enforce

        enforce(self.renderer, self.query, mode, self.backends)

    def faults(self) -> list[str]:
        from .trial import faults_of

        return faults_of(self.renderer)

    def written(self) -> str:
        from .written import written_digest

        return written_digest(self.renderer)
