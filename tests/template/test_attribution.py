"""Learned attribution over real chat templates: against prime's, where its ids are the same, and against the definition."""

from __future__ import annotations

from typing import Any

import pytest
import shapes
from sampling import WHOLE
from served import resolved

MODELS = ["Qwen/Qwen3-8B", "zai-org/GLM-5", "meta-llama/Llama-3.2-3B-Instruct", "Qwen/Qwen3.5-9B"]
THOUGHT = {**shapes.ONE_CALL, "reasoning_content": "Why."}
CONVERSATIONS = {
    "text": [*shapes.OPENING, shapes.TEXT, shapes.user("And lids?"), {"role": "assistant", "content": "nine"}],
    "no system": [*shapes.OPENING[1:], shapes.TEXT, shapes.user("And lids?")],
    "calls": [*shapes.OPENING, shapes.TWO_CALLS, shapes.A, shapes.B, shapes.TEXT],
    "reasoning": [*shapes.OPENING, THOUGHT, shapes.ONE, {**shapes.TEXT, "reasoning_content": "So."}],
}


def renderer_of(model: str, backend: str) -> Any:
    return resolved(model, backend)


def rendered(renderer: Any, messages: Any, **options: Any) -> Any:
    try:
        return renderer.render(messages, **options)
    except Exception as error:
        pytest.skip(f"the template refuses this conversation: {type(error).__name__}")


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("model", MODELS if WHOLE else MODELS[:2])
def test_what_is_claimed_equals_primes_attribution(model: str, name: str) -> None:
    out = rendered(renderer_of(model, "chat-template"), CONVERSATIONS[name])
    other = renderer_of(model, "prime").render(CONVERSATIONS[name])
    assert out.token_ids == other.token_ids
    for mine, theirs in ((out.message_indices, other.message_indices), (out.sampled_mask, other.sampled_mask)):
        assert mine is not None and any(each is not None for each in mine)
        assert [(a, b) for a, b in zip(mine, theirs, strict=True) if a is not None and a != b] == []


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("model", MODELS if WHOLE else MODELS[:2])
def test_what_is_masked_of_a_turn_follows_its_prompt_and_ends_with_its_stop(model: str, name: str) -> None:
    renderer, messages = renderer_of(model, "chat-template"), CONVERSATIONS[name]
    out = rendered(renderer, messages, add_generation_prompt=True)
    stops = set(renderer.get_stop_token_ids())
    for at, message in enumerate(messages):
        own = [place for place, index in enumerate(out.message_indices) if index == at]
        masked = [place for place in own if out.sampled_mask[place]]
        if message["role"] != "assistant":
            assert not masked
        elif masked:
            prompt = renderer.render_ids(messages[:at], add_generation_prompt=True)
            assert out.token_ids[: masked[0]] == prompt
            assert masked == list(range(masked[0], masked[-1] + 1))
            # Its stop, what closes it in the history in place of one, or its very end where the history doesn't close it.
            ended = masked[-1] == own[-1] and at + 1 == len(messages)
            assert out.token_ids[masked[-1]] in stops or ended or out.sampled_mask[masked[-1] + 1] is None
