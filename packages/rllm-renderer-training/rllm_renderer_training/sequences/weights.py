"""Which assistant messages are trained, and with what weight: the choice of the call, and the data set's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rllm_renderer_core.errors import MessageError

WEIGHT_KEYS = ("weight", "trainable", "loss_mask", "loss", "step_loss_mask", "train", "training")
"""Keys of a message by which data sets say whether, or how much, it is trained: OpenAI's ``weight``, tinker-cookbook's
``trainable``, SkyRL's ``loss_mask``, ms-swift's ``loss``, slime's ``step_loss_mask``, axolotl's ``train`` and ``training``."""

UNCERTAIN_KEYS = ("mask", "train_detail", "training_detail")
"""Keys that are refused: ``mask=1`` is "train it" to some trainers and "hide it" to others; axolotl's details name spans."""

_LEAST, _MOST = 2.0**-126, 2.0**127 * (2 - 2.0**-23)
"""The positive floats that trainers' float32 holds: beyond them are infinity and 0."""


def split_weights(messages: Iterable[Any]) -> tuple[list[Any], list[float | None]]:
    """The messages without weight keys, and each message's weight, ``None`` where it has none.

    Raises:
        MessageError: With the index, for a weight that isn't 0, 1, a boolean or a finite float from 0 on; for two keys that
            disagree; for a positive weight on a message that isn't the assistant's; for one of ``UNCERTAIN_KEYS``.
    """
    bare: list[Any] = []
    weights: list[float | None] = []
    for index, message in enumerate(messages):
        weight = None
        if isinstance(message, Mapping):
            refuse_uncertain(message, f"message {index}", index)
            if any(key in message for key in WEIGHT_KEYS):
                weight = _weight(index, message)
                message = {key: value for key, value in message.items() if key not in WEIGHT_KEYS}
        bare.append(message)
        weights.append(weight)
    return bare, weights


def refuse_uncertain(values: Mapping[str, Any], where: str, index: int | None = None) -> None:
    """Raises where a message, or a row, has one of ``UNCERTAIN_KEYS``."""
    for key in UNCERTAIN_KEYS:
        if values.get(key) is not None:
            raise MessageError(
                f"{where}: {key}={_short(values[key])} may say what is trained, and trainers don't agree how",
                fix="write it as loss_mask, 1 where the message is trained and 0 where it isn't",
                index=index,
            )


def _weight(index: int, message: Mapping[str, Any]) -> float | None:
    given: dict[str, float] = {}
    for key in WEIGHT_KEYS:
        value = message.get(key)
        if value is None:
            continue
        if not isinstance(value, (int, float)) or not (value == 0 or _LEAST <= value <= _MOST):
            raise MessageError(
                f"message {index}: {key} must be 0, 1, a boolean or a finite float from 0 on, as float32 holds it, "
                f"not {_short(value)}",
                index=index,
            )
        given[key] = float(value)
    if len(set(given.values())) > 1:
        said = ", ".join(f"{key}={message[key]!r}" for key in given)
        raise MessageError(f"message {index}: {said} disagree", fix="keep one of them", index=index)
    weight = next(iter(given.values()), None)
    if weight and message.get("role") != "assistant":
        raise MessageError(
            f"message {index} ({message.get('role')}) has the weight {weight:g}; only what an assistant samples is trained",
            fix="remove the key, or set it to 0",
            index=index,
        )
    return weight


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "an integer of thousands of digits"
    return text if len(text) <= 40 else f"{text[:40]}..."


def trained(messages: Sequence[Mapping[str, Any]], weights: Sequence[float | None], train: str) -> dict[int, float]:
    """Index and weight of each assistant message to train, in order: those that ``train`` names, but for a weight of 0."""
    spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if train == "last":
        spoken = spoken[-1:]
    elif train == "last_turn":
        asked = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=-1)
        spoken = [index for index in spoken if index > asked]
    chosen = {index: 1.0 if weights[index] is None else float(weights[index] or 0.0) for index in spoken}
    return {index: weight for index, weight in chosen.items() if weight}
