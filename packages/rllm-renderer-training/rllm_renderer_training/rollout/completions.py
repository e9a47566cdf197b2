"""What an engine returns, checked: log-probabilities, why it stopped, and the stop itself where it was stripped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.types import Termination

from ..errors import RolloutError

if TYPE_CHECKING:
    from rllm_renderer_core.renderer.resolved import ResolvedRenderer

STOPPED = frozenset({"stop", "tool_calls", "function_call"})
"""Finish reasons of engines and of OpenAI's protocol for a turn that the model ended itself."""
CUT_OFF = frozenset({"length", "abort"})
"""Finish reasons for a turn that the engine ended."""


def as_logprobs(logprobs: Any, count: int) -> list[float | None]:
    """Log-probabilities as ``float``, from a list or an array of NumPy or torch; ``None`` where one isn't known.

    Raises:
        RolloutError: One isn't a finite number, or there are more or fewer than ``count``.
    """
    if isinstance(logprobs, (str, bytes)):
        raise RolloutError("logprobs are text", fix="pass one number for each id, or None")
    to_list = getattr(logprobs, "tolist", None)
    values = list(to_list() if callable(to_list) else logprobs)
    if len(values) != count:
        raise RolloutError(f"{len(values)} logprobs for {count} sampled ids", fix="pass one for each id, or None")
    if not all(type(value) is float and math.isfinite(value) for value in values):
        return [_as_logprob(value, index) for index, value in enumerate(values)]
    out: list[float | None] = values
    return out


def _as_logprob(value: Any, index: int) -> float | None:
    item = getattr(value, "tolist", None)  # a scalar of NumPy or torch
    plain = item() if callable(item) else value
    if plain is None:
        return None
    if isinstance(plain, bool) or not isinstance(plain, (int, float)) or not math.isfinite(plain):
        raise RolloutError(f"logprob {index} is {plain!r}, not a finite number", fix="pass None where it isn't known")
    return float(plain)


def stripped_stop(
    renderer: ResolvedRenderer,
    messages: Sequence[Any],
    tools: Sequence[Any] | None,
    prompt: list[int],
    ids: list[int],
    finish_reason: str | None,
    stop_id: int | None,
) -> int | None:
    """The stop that the engine stopped at and didn't return, or ``None`` where there is none to put back.

    Args:
        renderer: Tells the stops.
        messages: The conversation that ``prompt`` renders.
        tools: As declared.
        prompt: What the completion was sampled from.
        ids: The completion as the engine returned it.
        finish_reason: What the engine says; ``None`` where it isn't known: then nothing is put back.
        stop_id: The stop, where the engine tells.

    Raises:
        RolloutError: The ids contradict the finish reason, or more than one stop would fit.
    """
    if finish_reason is None and stop_id is None:
        return None
    if finish_reason is not None and finish_reason not in STOPPED | CUT_OFF:
        known = ", ".join(sorted(STOPPED | CUT_OFF))
        raise RolloutError(f"finish_reason {finish_reason!r} isn't known", fix=f"pass one of {known}, or leave it out")
    stops = renderer.get_stop_token_ids()
    if stop_id is not None and stop_id not in stops:
        raise RolloutError(f"stop_id {stop_id!r} isn't a stop of this model", fix=f"its stops are {stops}")
    found = next((token for token in ids if token in stops), None)
    if finish_reason in CUT_OFF:
        if found is not None or stop_id is not None:
            raise RolloutError(
                f"finish_reason is {finish_reason!r}, but the stop {stop_id if found is None else found} was sampled",
                fix="pass finish_reason='stop', or the ids of that turn alone",
            )
        return None
    if found is not None:
        if stop_id is not None and found != stop_id:
            raise RolloutError(f"stop_id is {stop_id}, but the completion has the stop {found}", fix="leave stop_id out")
        return None
    if stop_id is not None or not stops:  # a format without a stop id ends with a text, which is part of the completion
        return stop_id
    fitting = stops if len(stops) == 1 else _fitting(renderer, messages, tools, prompt, ids, stops)
    if len(fitting) != 1:
        raise RolloutError(
            f"the engine stopped, its completion has no stop, and {len(fitting)} of the stops {stops} would fit",
            fix="pass stop_id=, or have the engine return the stop (vLLM: include_stop_str_in_output, or its stop_reason)",
        )
    return fitting[0]


def _fitting(
    renderer: ResolvedRenderer,
    messages: Sequence[Any],
    tools: Sequence[Any] | None,
    prompt: list[int],
    ids: list[int],
    stops: Sequence[int],
) -> list[int]:
    """Stops with which the completion is whole; of several, the one with which the renderer itself closes such a turn."""
    parsed = {stop: renderer.parse_response([*ids, stop], tools=tools, prompt_ids=prompt) for stop in stops}
    whole = [stop for stop in stops if parsed[stop].termination is Termination.STOP]
    if len(whole) < 2:
        return whole
    try:
        shown = renderer.render_ids([*messages, parsed[whole[0]].to_message()], tools=tools)
    except RendererError:
        return whole
    last = next((token for token in reversed(shown) if token in whole), None)
    behind = [] if last is None else shown[len(shown) - shown[::-1].index(last) :]
    # Close to the end: the close of an earlier turn is followed by this whole turn.
    return whole if last is None or len(behind) > 2 else [last]
