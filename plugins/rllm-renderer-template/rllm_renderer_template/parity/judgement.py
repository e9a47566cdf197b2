"""What the tokenizer's chat template says of one resolved renderer: the answer of the hook ``rllm_renderer_judge``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rllm_renderer_core.errors import BridgeDeclined, OptionError, RendererError
from rllm_renderer_core.guards.parse_check.checking import checked_parsed
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.tokenizer import lock_of
from rllm_renderer_core.plugin import Detected, Query, Registered, rendering_probes
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.renderer.sources import LENGTH

from ..reasons import reason_of
from .comparison import parity
from .enforcement import enforce, preferred
from .probes import FOUR, LIDS, PROBES
from .report import ParityReport


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

    @cached_property
    def _report(self) -> ParityReport | OptionError:
        """The comparison, made once; the error where an option has no variable in the template."""
        try:
            return parity(self.renderer)
        except OptionError as error:
            return error

    def better(self, *, need_bridge: bool) -> Detected | None:
        better = preferred(self.renderer, self._report, self.query, self.backends, need_bridge=need_bridge)
        return None if better is None else Detected(better[0].registered, better[0].coverage, better[1])

    def enforce(self, mode: str) -> None:
        enforce(self.renderer, self._report, self.query, mode, self.backends)

    def faults(self) -> list[str]:
        return faults_of(self.renderer)

    def written(self) -> str:
        return written_digest(self.renderer)


def written_digest(renderer: ResolvedRenderer) -> str:
    """A digest of what a renderer writes for the probes: two of the same digest give the same ids, whatever their versions say.

    A probe that is refused counts by the kind of its error.
    """
    whole = hashlib.sha256()
    with rendering_probes():
        for probe in PROBES:
            try:
                ids = renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt)
                written = " ".join(map(str, ids))
            except RendererError as error:
                written = type(error).__name__
            whole.update(f"{probe.name}: {written}\n".encode())
    return whole.hexdigest()[:LENGTH]


def faults_of(renderer: ResolvedRenderer) -> list[str]:
    """What is wrong with it, a line each, with the backend and the method. A refusal of tools or a decline is no fault."""
    with rendering_probes():
        return [f"{renderer.backend}:{renderer.name}: {fault}" for fault in _faults(renderer)]


def _faults(renderer: ResolvedRenderer) -> list[str]:
    out: list[str] = []
    try:
        prompt = renderer.render_ids([LIDS], add_generation_prompt=True)
        if renderer.render([LIDS], add_generation_prompt=True).token_ids != prompt:
            out.append("render and render_ids give other ids")
    except RendererError as error:
        return [reason_of(error)]
    stops = renderer.get_stop_token_ids()
    if not stops and not renderer.get_stop_strings():
        out.append("get_stop_token_ids is empty, and so is get_stop_strings")
    try:
        whole = renderer.render_ids([LIDS, FOUR])
    except RendererError:  # a format may refuse to end with an answer
        whole = [*prompt, *prompt[-1:]]
    sampled = whole[common_prefix(prompt, whole) :] or prompt[-1:]
    at = next((index for index, each in enumerate(sampled) if each in stops), None)
    sampled = [*sampled, *stops[:1]] if at is None else sampled[: at + 1]
    out += _parse_faults(renderer, sampled)
    bridged = renderer.try_bridge(prompt, sampled, [LIDS], previous_message=FOUR)
    cause = bridged.__cause__ if isinstance(bridged, BridgeDeclined) else None
    if cause is not None and not isinstance(cause, BridgeDeclined):
        out.append(f"bridge_to_next_turn: {reason_of(cause)}")
    return out


def _parse_faults(renderer: ResolvedRenderer, sampled: list[int]) -> list[str]:
    """The bare renderer's parse, as the core makes something readable of whatever it does."""
    try:
        with lock_of(renderer.tokenizer):
            checked_parsed(renderer.upstream.parse_response(list(sampled)), renderer.backend)
    except (Exception, SystemExit) as error:
        return [f"parse_response: {reason_of(error)}"]
    return []
