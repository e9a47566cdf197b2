"""What is wrong with one resolved renderer, found by small calls of each of its methods."""

from __future__ import annotations

from collections.abc import Iterator

from rllm_renderer_core.errors import BridgeDeclined, RendererError
from rllm_renderer_core.guards.parse_check.checking import checked_parsed
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.tokenizer import lock_of
from rllm_renderer_core.plugin import rendering_probes
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..reasons import reason_of
from .probes import FOUR, LIDS


def faults_of(renderer: ResolvedRenderer) -> list[str]:
    """What is wrong with it, a line each, with the backend and the method. A refusal of tools or a decline is no fault."""
    with rendering_probes():
        return [f"{renderer.backend}:{renderer.name}: {fault}" for fault in _faults(renderer)]


def _faults(renderer: ResolvedRenderer) -> Iterator[str]:
    try:
        prompt = renderer.render_ids([LIDS], add_generation_prompt=True)
        if renderer.render([LIDS], add_generation_prompt=True).token_ids != prompt:
            yield "render and render_ids give other ids"
    except RendererError as error:
        yield reason_of(error)
        return
    stops = renderer.get_stop_token_ids()
    if not stops and not renderer.get_stop_strings():
        yield "get_stop_token_ids is empty, and so is get_stop_strings"
    try:
        whole = renderer.render_ids([LIDS, FOUR])
    except RendererError:  # a format may refuse to end with an answer
        whole = [*prompt, *prompt[-1:]]
    sampled = whole[common_prefix(prompt, whole) :] or prompt[-1:]
    at = next((index for index, token in enumerate(sampled) if token in stops), None)
    sampled = [*sampled, *stops[:1]] if at is None else sampled[: at + 1]
    try:
        with lock_of(renderer.tokenizer):  # the bare renderer's parse: the core makes something readable of whatever it does
            checked_parsed(renderer.upstream.parse_response(list(sampled)), renderer.backend)
    except (Exception, SystemExit) as error:
        yield f"parse_response: {reason_of(error)}"
    bridged = renderer.try_bridge(prompt, sampled, [LIDS], previous_message=FOUR)
    cause = bridged.__cause__ if isinstance(bridged, BridgeDeclined) else None
    if cause is not None and not isinstance(cause, BridgeDeclined):
        yield f"bridge_to_next_turn: {reason_of(cause)}"
