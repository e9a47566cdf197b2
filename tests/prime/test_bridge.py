"""Bridges on prime: what follows P + C is what the official template puts there, or a decline with its reason."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import shapes

from rllm_renderer_core import BridgeDeclined, resolve

Prime = Callable[..., Any]
Tokenizers = Callable[[str], Any]

FORCED = {
    "system": ("qwen3.5", "qwen3.6", "qwen3.8", "minimax-m2", "deepseek-v3"),
    "two results": ("llama-3",),
    "results in reverse": ("llama-3",),
}
"""Shapes that a family's template refuses, drops or moves: declined."""

UNCLOSED = ("deepseek-v3", "result then user")
"""DeepSeek-V3's template leaves the results open before a user message; upstream closes them."""


@pytest.mark.parametrize("tools", [None, shapes.TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_bridges_equal_the_templates_continuation(
    templated: Any, named: bool, tools: Any, prime: Prime, tokenizer_of: Tokenizers
) -> None:
    """Every shape, results with names, and with ids alone as OpenAI's clients send them."""
    renderer, tokenizer = prime(templated.name), tokenizer_of(templated.name)
    text_of, closes = shapes.template_text(tokenizer), shapes.closes(templated.name)
    for shape in shapes.SHAPES:
        forced = templated.family in FORCED.get(shape.name, ())
        shape = shape if named else shape.unnamed()
        start = shapes.SHAPES[0] if forced else shape
        prompt, sampled = shapes.sampled_turn(tokenizer, text_of, start, closes, tools)
        out = renderer.try_bridge(prompt, sampled, shape.new, tools=tools, previous_message=shape.assistant)
        if forced:
            assert isinstance(out, BridgeDeclined), shape.name
            continue
        assert not isinstance(out, BridgeDeclined), f"{shape.name}: {out.reason}"
        size = len(prompt) + len(sampled)
        assert out.token_ids[:size] == prompt + sampled
        if (templated.family, shape.name.removesuffix(" (unnamed)")) == UNCLOSED:
            continue
        assert out.token_ids[size:] == shapes.continuation(tokenizer, text_of, shape, closes, tools), shape.name
        assert out.message_indices is not None and out.sampled_mask is not None
        assert out.message_indices[:size] == [None] * size == out.sampled_mask[:size]
        rest = out.message_indices[size:]
        assert set(rest) <= {-1, None, *range(len(shape.new))} and not any(out.sampled_mask[size:])
        assert None in rest or set(range(len(shape.new))) <= set(rest), "a new message has no token"


@pytest.mark.xfail(strict=True, reason="the template leaves the results open before a user message, upstream closes them")
def test_deepseek_v3_result_then_user(prime: Prime, tokenizer_of: Tokenizers) -> None:
    name = "deepseek-ai/DeepSeek-V3"
    tokenizer = tokenizer_of(name)
    text_of, closes = shapes.template_text(tokenizer), shapes.closes(name)
    shape = next(shape for shape in shapes.SHAPES if shape.name == UNCLOSED[1])
    prompt, sampled = shapes.sampled_turn(tokenizer, text_of, shape, closes)
    out = prime(name).bridge_to_next_turn(prompt, sampled, shape.new, previous_message=shape.assistant)
    assert out.token_ids[len(prompt) + len(sampled) :] == shapes.continuation(tokenizer, text_of, shape, closes)


def turn(name: str, text: str, prime: Prime, tokenizer_of: Tokenizers, **options: Any) -> tuple[Any, Any, list[int], list[int]]:
    """The renderer, the tokenizer, P of the opening, and C as ids of ``text``."""
    renderer, tokenizer = prime(name, **options), tokenizer_of(name)
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    return renderer, tokenizer, prompt, shapes.encode(tokenizer, text)


def test_one_newline_behind_the_close(prime: Prime, tokenizer_of: Tokenizers) -> None:
    """Also where the completion goes on with that newline."""
    renderer, _, prompt, sampled = turn("Qwen/Qwen3-8B", "four<|im_end|>", prime, tokenizer_of)
    plain = renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("and lids?")])
    newline = shapes.encode(renderer.tokenizer, "\n")
    longer = renderer.bridge_to_next_turn(prompt, sampled + newline, [shapes.user("and lids?")])
    assert plain.token_ids == longer.token_ids
    assert plain.token_ids[len(prompt) + len(sampled)] == newline[0] != plain.token_ids[len(prompt) + len(sampled) + 1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Qwen/Qwen3-8B", "four<|im_end|>and more"),
        ("Qwen/Qwen3-8B", "four<|im_end|><|im_end|>"),
        ("Qwen/Qwen3-8B", "four<|im_end|><|endoftext|>"),
        ("zai-org/GLM-5", "x</think>four<|user|>lids?"),
        ("zai-org/GLM-5", "x</think>four<|endoftext|>lids?"),
    ],
)
def test_tokens_behind_the_stop_are_declined(name: str, text: str, prime: Prime, tokenizer_of: Tokenizers) -> None:
    renderer, _, prompt, sampled = turn(name, text, prime, tokenizer_of)
    assert renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("and lids?")]) is None


@pytest.mark.parametrize(
    ("name", "text", "follows"),
    [
        ("Qwen/Qwen3-8B", "four", "<|im_end|>\n<|im_start|>user\nlids?<|im_end|>\n<|im_start|>assistant\n"),
        (
            "Qwen/Qwen3.5-9B",
            "x\n</think>\n\nfour",
            "<|im_end|>\n<|im_start|>user\nlids?<|im_end|>\n<|im_start|>assistant\n<think>\n",
        ),
        ("zai-org/GLM-5", "x</think>four", "<|user|>lids?<|assistant|><think>"),
        ("zai-org/GLM-5", "x</think>four<|user|>", "lids?<|assistant|><think>"),
        ("zai-org/GLM-5", "x</think>four<|endoftext|>", "<|user|>lids?<|assistant|><think>"),
        ("deepseek-ai/DeepSeek-V3", "four", "<｜end▁of▁sentence｜><｜User｜>lids?<｜Assistant｜>"),
        ("meta-llama/Llama-3.2-3B-Instruct", "four", None),
        ("google/gemma-4-E2B-it", "four", "<turn|>\n<|turn>user\nlids?<turn|>\n<|turn>model\n"),
    ],
)
def test_a_turn_that_was_cut_off_is_closed(
    name: str, text: str, follows: str | None, prime: Prime, tokenizer_of: Tokenizers
) -> None:
    """With the format's own close, unsampled; in GLM that is the next role tag, behind an end of text if sampled."""
    renderer, tokenizer, prompt, sampled = turn(name, text, prime, tokenizer_of)
    out = renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("lids?")])
    behind = tokenizer.decode(out.token_ids[len(prompt) + len(sampled) :])
    assert out.token_ids[: len(prompt) + len(sampled)] == prompt + sampled
    assert behind == follows if follows else behind.startswith("<|eot_id|><|start_header_id|>user<|end_header_id|>")
    assert len(out.token_ids) == len(out.message_indices) == len(out.sampled_mask)


@pytest.mark.parametrize("name", ["Qwen/Qwen3.5-9B", "zai-org/GLM-5", "MiniMaxAI/MiniMax-M2", "moonshotai/Kimi-K2.6"])
def test_a_cut_inside_reasoning_is_declined(name: str, prime: Prime, tokenizer_of: Tokenizers) -> None:
    renderer, _, prompt, sampled = turn(name, "Weighing both, the first", prime, tokenizer_of)
    out = renderer.try_bridge(prompt, sampled, [shapes.user("lids?")])
    assert isinstance(out, BridgeDeclined) and "inside reasoning" in out.reason


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("x</think>four<|observation|>", shapes.user("lids?")),
        ("x</think>four<|user|>", shapes.ONE),
        ("x</think>four<|user|>", {"role": "system", "content": "Be kind."}),
    ],
)
def test_a_role_tag_that_contradicts_the_new_message_is_declined(
    text: str, new: dict[str, Any], prime: Prime, tokenizer_of: Tokenizers
) -> None:
    renderer, _, prompt, sampled = turn("zai-org/GLM-5", text, prime, tokenizer_of)
    out = renderer.try_bridge(prompt, sampled, [new])
    assert isinstance(out, BridgeDeclined) and "tag" in out.reason


def test_retention(prime: Prime, tokenizer_of: Tokenizers) -> None:
    """A bridge keeps sampled reasoning verbatim, a render drops it as the template does; tool_cycle declines."""
    text = "<think>\nWeighing.\n</think>\n\nfour<|im_end|>"
    renderer, tokenizer, prompt, sampled = turn("Qwen/Qwen3-8B", text, prime, tokenizer_of)
    bridged = renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("And?")])
    assert "Weighing." in tokenizer.decode(bridged.token_ids)
    history = [*shapes.OPENING, {"role": "assistant", "content": "four", "reasoning_content": "Weighing."}, shapes.user("And?")]
    assert "Weighing." not in tokenizer.decode(renderer.render_ids(history, add_generation_prompt=True))
    cycle = prime("Qwen/Qwen3-8B", thinking_retention="tool_cycle")
    assert isinstance(cycle.try_bridge(prompt, sampled, [shapes.user("And?")]), BridgeDeclined)
    assert cycle.bridge_to_next_turn(prompt, sampled, [shapes.result("look", "c", "five")]) is not None


def test_thinking_off_keeps_the_empty_block(prime: Prime, tokenizer_of: Tokenizers) -> None:
    renderer, tokenizer, prompt, sampled = turn("Qwen/Qwen3-8B", "four<|im_end|>", prime, tokenizer_of, thinking=False)
    out = renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("And?")])
    assert out.token_ids[: len(prompt)] == prompt
    assert tokenizer.decode(out.token_ids).count("<think>\n\n</think>\n\n") == 2


CALLS = {
    "google/gemma-4-E2B-it": '<|tool_call>call:look{q:<|"|>x<|"|>}<tool_call|><|tool_call>call:count{q:<|"|>y<|"|>}<tool_call|>'
    "<|tool_response>",
    "moonshotai/Kimi-K2.6": "x</think><|tool_calls_section_begin|><|tool_call_begin|>functions.look:0"
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>",
}


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("google/gemma-4-E2B-it", [{"role": "tool", "content": "seven"}, {"role": "tool", "content": "five"}]),
        ("google/gemma-4-E2B-it", [{"role": "tool", "tool_call_id": "other", "content": "five"}]),
        ("moonshotai/Kimi-K2.6", [{"role": "tool", "content": "five"}]),
    ],
)
def test_a_result_whose_call_is_unknown_is_declined_where_the_format_shows_it(
    name: str, results: list[dict[str, Any]], prime: Prime, tokenizer_of: Tokenizers
) -> None:
    """Upstream would guess, or write "unknown" or nothing."""
    renderer, _, prompt, sampled = turn(name, CALLS[name], prime, tokenizer_of)
    out = renderer.try_bridge(prompt, sampled, results)
    assert isinstance(out, BridgeDeclined) and "isn't known" in out.reason


def test_kimi_shows_a_name_only_where_the_client_sent_one(prime: Prime, tokenizer_of: Tokenizers) -> None:
    name = "moonshotai/Kimi-K2.6"
    renderer, tokenizer, prompt, sampled = turn(name, CALLS[name], prime, tokenizer_of)
    bare = {"role": "tool", "tool_call_id": "functions.look:0", "content": "five"}
    for result, role in ((bare, "tool"), ({**bare, "name": "look"}, "look")):
        out = renderer.bridge_to_next_turn(prompt, sampled, [result], previous_message=shapes.ONE_CALL)
        behind = tokenizer.decode(out.token_ids[len(prompt) + len(sampled) :])
        assert behind.startswith(f"<|im_system|>{role}<|im_middle|>## Return of functions.look:0\nfive<|im_end|>")


def test_deepseek_v4_writes_results_in_the_order_of_their_calls(prime: Prime, tokenizer_of: Tokenizers) -> None:
    """Its encoder sorts them; upstream's bridge gives up on two, which it can't sort."""
    tokenizer = tokenizer_of("deepseek-ai/DeepSeek-V4-Flash")
    renderer = resolve("deepseek-ai/DeepSeek-V4-Flash-0731", tokenizer, backend="prime")
    eos = tokenizer.convert_tokens_to_ids("<｜end▁of▁sentence｜>")
    for shape in shapes.SHAPES:
        full = renderer.render_ids([*shapes.OPENING, shape.assistant, *shape.new], add_generation_prompt=True)
        prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
        sampled = renderer.render_ids([*shapes.OPENING, shape.assistant])[len(prompt) :]
        out = renderer.bridge_to_next_turn(prompt, sampled, shape.new, previous_message=shape.assistant)
        last = max(index for index, token in enumerate(full) if token == eos)
        assert out.token_ids == prompt + sampled + full[last + 1 :], shape.name
    two = next(shape for shape in shapes.SHAPES if shape.name == "two results")
    declined = renderer.try_bridge(prompt, sampled, two.unnamed().new)
    assert isinstance(declined, BridgeDeclined) and "order of their calls" in declined.reason


def test_many_threads_give_what_one_gives(prime: Prime, tokenizer_of: Tokenizers) -> None:
    renderer, tokenizer, prompt, sampled = turn("Qwen/Qwen3-8B", "four<|im_end|>", prime, tokenizer_of)

    def work(number: int) -> tuple[Any, ...]:
        new = [shapes.user(f"and {number} lids?")]
        bridged = renderer.bridge_to_next_turn(prompt, sampled, new).token_ids
        rendered = renderer.render_ids([*shapes.OPENING, *new], tools=shapes.TOOLS)
        parsed = renderer.parse_response(shapes.encode(tokenizer, f"{number}<|im_end|>") if number < 0 else sampled)
        return bridged, rendered, parsed.content

    expected = [work(number) for number in range(64)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(64))) == expected
