"""``accumulate_reasoning``: prompts whose history keeps the reasoning of earlier turns, as a bridged rollout's ids keep it.

Most chat templates leave reasoning out of the history, and few have a variable for that. So each turn is what the model samples
behind its own prompt, and the messages between two turns are bridged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_training.sequences.supervised import supervised
from rllm_renderer_training.sequences.weights import split_weights

from rllm_renderer_core.errors import BridgeDeclined, RenderError, UnsupportedContentError
from rllm_renderer_core.normal_form.messages import has_media, normalize_messages
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.types import Message

_FIX = "accumulate_reasoning=False renders what the model's chat template shows"


def with_earlier_reasoning(
    renderer: ResolvedRenderer, messages: Sequence[Message], tools: Sequence[Any] | None
) -> list[int] | None:
    """The ids of a prompt in which every earlier turn has its reasoning; ``None`` where no message has any.

    Args:
        renderer: What ``resolve`` returned.
        messages: The conversation, which ends with what the next turn answers.
        tools: As declared.

    Raises:
        UnreachableTurnError: A turn that the model can't say behind its prompt, such as one without reasoning behind a
            generation prompt that opens reasoning.
        UnsupportedContentError: Images, whose data wouldn't come along.
        RenderError: A format in which the turns can't be bridged, with the reason.
    """
    bare, _ = split_weights(messages)
    ready = normalize_messages(bare)
    turns = [index for index, message in enumerate(ready) if message["role"] == "assistant"]
    if not any(ready[index].get("reasoning_content") for index in turns):
        return None
    if any(has_media(message) for message in ready):
        raise UnsupportedContentError("the reasoning of earlier turns can't be kept beside images", fix=_FIX)
    last = turns[-1]
    examples = supervised(renderer, ready[: last + 1], tools=tools, history="verbatim")
    if len(examples) > 1:
        raise RenderError(f"the reasoning of earlier turns can't be kept: {examples[1].reason}", fix=_FIX)
    ids, weights = examples[0].token_ids, examples[0].weights
    start = next(at for at in reversed(range(len(ids))) if not weights[at]) + 1  # of what the last turn sampled
    bridged = renderer.try_bridge(ids[:start], ids[start:], ready[last + 1 :], tools=tools, previous_message=ready[last])
    if isinstance(bridged, BridgeDeclined):
        raise RenderError(f"the reasoning of earlier turns can't be kept: {bridged.reason}", fix=_FIX)
    return bridged.token_ids
