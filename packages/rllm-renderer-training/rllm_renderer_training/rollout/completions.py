"""What an engine returns for one request, checked: ids, log-probabilities, weight versions, and why it stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..errors import RolloutError
from .segment import Turn

STOPPED = frozenset({"stop", "tool_calls", "function_call"})
"""Finish reasons of engines and of OpenAI's protocol for a turn that the model ended itself, or a stop string did."""
CUT_OFF = frozenset({"length", "abort"})
"""Finish reasons for a turn that the engine ended."""


def completed(
    renderer: ResolvedRenderer,
    completion_ids: Any,
    logprobs: Any,
    finish_reason: str | Mapping[str, Any] | None,
    stop_reason: int | str | None,
    version: int | str | None,
    forced: Any,
) -> tuple[list[int], Turn]:
    """The arguments of ``Rollout.record``, checked: the ids, with the stop that the engine left out where it names one, and the
    turn of them alone. Errors as there."""
    ids = list(renderer.as_ids(completion_ids, "completion_ids"))
    stop = stripped_stop(renderer, ids, finish_reason, stop_reason)
    mask = as_values(forced, len(ids), "forced", as_forced)
    values = as_values(logprobs, len(ids), "logprobs", as_logprob)
    if stop is not None:
        ids.append(stop)
        values = None if values is None else (*values, None)
        mask = None if mask is None else (*mask, False)
    if values is not None and mask is not None:
        values = tuple(None if skip else value for value, skip in zip(values, mask, strict=True))
    weights = as_version(version, 0)
    versions = None if weights is None else (weights,) * len(ids)
    return ids, Turn(0, len(ids), values, stop is not None, versions=versions, forced=mask)


def as_values(values: Any, count: int, what: str, read: Callable[[Any, int], Any]) -> tuple[Any, ...] | None:
    """One value for each id, from a list or an array of NumPy or torch, each as ``read`` returns it; ``None`` for ``None``."""
    if values is None:
        return None
    if isinstance(values, (str, bytes)):
        raise RolloutError(f"{what} is text", fix="pass one value for each id, or None")
    listed = list(_plain(values))
    if len(listed) != count:
        raise RolloutError(f"{len(listed)} {what} for {count} sampled ids", fix="pass one for each id, or None")
    return tuple(read(value, index) for index, value in enumerate(listed))


def _plain(value: Any) -> Any:
    item = getattr(value, "tolist", None)  # a scalar or array of NumPy or torch
    return item() if callable(item) else value


def as_logprob(value: Any, index: int) -> float | None:
    if type(value) is float and math.isfinite(value):
        return value
    plain = _plain(value)
    if plain is None:
        return None
    if isinstance(plain, bool) or not isinstance(plain, (int, float)) or not math.isfinite(plain):
        raise RolloutError(f"logprob {index} is {plain!r}, not a finite number", fix="pass None where it isn't known")
    return float(plain)


def as_version(value: Any, index: int) -> int | None:
    plain = _plain(value)
    if plain is None or (isinstance(plain, int) and not isinstance(plain, bool)):
        return plain
    if isinstance(plain, str) and plain.isdecimal():  # SGLang's weight_version is text
        return int(plain)
    raise RolloutError(f"version {plain!r} isn't a whole number", fix="pass the training step of the weights, or None")


def as_forced(value: Any, index: int) -> bool:
    plain = _plain(value)
    if plain not in (0, 1):
        raise RolloutError(f"forced {index} is {plain!r}, not a boolean", fix="pass True for each id that wasn't sampled")
    return bool(plain)


def stripped_stop(
    renderer: ResolvedRenderer, ids: list[int], finish_reason: str | Mapping[str, Any] | None, stop_reason: int | str | None
) -> int | None:
    """The stop id that the engine names and didn't return; ``None`` where there is none to put back. See ``Rollout.record``."""
    if isinstance(finish_reason, Mapping):  # SGLang's
        matched = finish_reason.get("matched")
        finish_reason, stop_reason = finish_reason.get("type"), matched if stop_reason is None else stop_reason
    if finish_reason is not None and finish_reason not in STOPPED | CUT_OFF:
        known = ", ".join(sorted(STOPPED | CUT_OFF))
        raise RolloutError(f"finish_reason {finish_reason!r} isn't known", fix=f"pass one of {known}, or leave it out")
    stops = renderer.get_stop_token_ids()
    sampled = next((token for token in ids if token in stops), None)
    named = None
    if stop_reason is not None and not isinstance(stop_reason, str):
        (named,) = renderer.as_ids([stop_reason], "stop_reason")
    if finish_reason in CUT_OFF and (sampled is not None or named is not None):
        raise RolloutError(
            f"finish_reason is {finish_reason!r}, but the stop {named if sampled is None else sampled} was sampled",
            fix="pass finish_reason='stop', or the ids of that turn alone",
        )
    if named is None or named == sampled or named == next(reversed(ids), None):
        return None
    if sampled is not None:
        raise RolloutError(
            f"stop_reason is {named}, but the completion has the stop {sampled}", fix="pass the ids of that turn alone"
        )
    return named
