"""``sampled_mask`` begins where sampling begins and ends with the stop, whatever an upstream marks."""

from __future__ import annotations

from typing import Any

import pytest
import supervised_oracle as oracle
from served import covers, resolved
from supervised_backends import served

from rllm_renderer_core import RenderedTokens
from rllm_renderer_core.guards.sampled_mask.mask import SampledMask

REASONED = oracle.CONVERSATIONS["reasoning"][0][:3]


@pytest.mark.parametrize(
    ("model", "backend"),
    [
        pytest.param("Qwen/Qwen3.5-9B", "prime", id="prime qwen3.5"),
        pytest.param("Qwen/Qwen3.6-35B-A3B", "prime", id="prime qwen3.6"),
        pytest.param("MiniMaxAI/MiniMax-M2.7", "prime", id="prime minimax-m2"),
        pytest.param("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "prime", id="prime nemotron"),
        pytest.param("MiniMaxAI/MiniMax-M2.7", "fireworks", id="fireworks minimax_m2"),
        pytest.param("MiniMaxAI/MiniMax-M3", "fireworks", id="fireworks minimax_m3"),
        pytest.param("google/gemma-4-E2B-it", "fireworks", id="fireworks gemma4"),
        pytest.param("meta-llama/Llama-3.2-3B-Instruct", "prime", id="nothing to correct"),
    ],
)
def test_the_mask_is_what_is_sampled(model: str, backend: str) -> None:
    each = served(model, backend)
    if isinstance(each, str):
        pytest.skip(f"the mask isn't proved: {each}")
    messages = REASONED if "Llama" not in model else oracle.CONVERSATIONS["plain"][0][:3]
    (turn,) = oracle.turns(each.tokenizer, each.text_of, model, messages, None)
    assert turn.completion is not None
    out = each.renderer.render(messages)
    sampled = [token for token, kept in zip(out.token_ids, out.sampled_mask, strict=True) if kept]
    assert sampled == list(turn.completion)


def test_kimi_in_a_tool_cycle() -> None:
    """Kimi's template shows the reasoning of calls alone."""
    each = served("moonshotai/Kimi-K2.6", "prime")
    if isinstance(each, str):
        pytest.skip(f"the mask isn't proved: {each}")
    messages = oracle.CONVERSATIONS["tool cycle"][0][:3]
    (turn,) = oracle.turns(each.tokenizer, each.text_of, each.model, messages, None)
    assert turn.completion is not None
    out = each.renderer.render(messages)
    assert [token for token, kept in zip(out.token_ids, out.sampled_mask, strict=True) if kept] == list(turn.completion)


FINAL = "<|channel|>final<|message|>"
TWO_TURNS = [
    {"role": "user", "content": "How many?"},
    {"role": "assistant", "content": "four"},
    {"role": "user", "content": "And lids?"},
    {"role": "assistant", "content": "two"},
]


def sampled_texts(model: str, backend: str, messages: list[dict[str, Any]]) -> list[str]:
    """What a render marks as sampled, by message."""
    if not covers(model, backend):
        pytest.skip(f"{backend} doesn't serve {model} here")
    renderer = resolved(model, backend)
    out = renderer.render(messages)
    attributed = zip(out.message_indices, out.token_ids, out.sampled_mask, strict=True)
    marked = [(index, token) for index, token, kept in attributed if kept]
    runs = {index: [token for other, token in marked if other == index] for index, _ in marked}
    assert all(messages[index]["role"] == "assistant" for index in runs)
    return [renderer.tokenizer.decode(ids) for ids in runs.values()]


@pytest.mark.parametrize("backend", ["prime", "tinker", "tml", "chat-template"])
def test_harmonys_header_is_sampled_and_the_end_that_replaces_a_sampled_return_isnt(backend: str) -> None:
    texts = sampled_texts("openai/gpt-oss-20b", backend, TWO_TURNS)
    assert texts == [f"{FINAL}four", f"{FINAL}two<|return|>"]


@pytest.mark.parametrize(
    ("model", "backend"),
    [
        pytest.param(f"zai-org/GLM-{version}", backend, id=f"{backend} {version}")
        for version, backend in (("5", "fireworks"), ("5.1", "fireworks"), ("5.2", "fireworks"), ("5.2", "tml"), ("5", "prime"))
    ],
)
def test_the_role_tag_that_stops_a_turn_of_glm_is_sampled(model: str, backend: str) -> None:
    (text,) = sampled_texts(model, backend, TWO_TURNS[:3])
    assert text.removeprefix("</think>") == "four<|user|>"


OPENER, STOP, NEWLINE, TEXT = [1, 2, 3, 4], 9, 5, 7


def corrected(ids: list[int], mask: list[bool | None], indices: list[int | None] | None = None) -> Any:
    def render_ids(messages: Any, *, tools: Any, add_generation_prompt: bool) -> list[int]:
        return [8, *OPENER] if add_generation_prompt else [8]

    out = RenderedTokens(ids, indices, mask)
    return SampledMask(render_ids, frozenset({STOP})).after_render(out).sampled_mask


@pytest.mark.parametrize("header", [0, 1, 2, 4])
def test_what_the_opener_supplies_isnt_sampled(header: int) -> None:
    mask = [False, *[False] * header, *[True] * (4 - header), True, True]
    assert corrected([8, *OPENER, TEXT, STOP], mask) == [False] * 5 + [True, True]


def test_a_turn_with_another_header_keeps_its_mask() -> None:
    assert corrected([8, 1, 2, TEXT, STOP], [False, False, False, True, True]) == [False, False, False, True, True]


def test_the_mask_ends_with_the_stop() -> None:
    assert corrected([8, TEXT, STOP, NEWLINE], [False, True, True, True]) == [False, True, True, False]


def test_without_a_stop_the_turn_is_sampled_to_its_end() -> None:
    assert corrected([8, TEXT, TEXT, 6], [False, True, True, False]) == [False, True, True, False]


def test_turns_side_by_side_are_told_apart_by_their_messages() -> None:
    ids, mask = [TEXT, STOP, NEWLINE, TEXT, STOP, NEWLINE], [True] * 6
    assert corrected(ids, list(mask), [0, 0, 0, 1, 1, 1]) == [True, True, False, True, True, False]


def test_a_stop_behind_the_turn_belongs_to_it() -> None:
    indices: list[int | None] = [0, 1, 2, 2]
    assert corrected([8, TEXT, STOP, TEXT], [False, True, False, False], indices) == [False, True, True, False]
    assert indices == [0, 1, 1, 2]


def test_all_of_a_message_between_the_generation_prompt_and_the_stop_is_sampled() -> None:
    ids, mask = [8, *OPENER, 6, TEXT, 6, TEXT, STOP], [False] * 6 + [True, False, True, False]
    assert corrected(ids, list(mask), [0] + [1] * 9) == [False] * 5 + [True] * 5
    assert corrected(ids, list(mask), [0] + [-1] * 4 + [1] * 5) == [False] * 5 + [True] * 5


def test_no_mask_stays_none() -> None:
    assert corrected([8, TEXT], None) is None  # type: ignore[arg-type]
