"""A completion that was cut off inside a tool call is never bridged, whatever the backend; a call that is whole may be."""

from __future__ import annotations

import pytest
import real_tokenizers
from sampling import WHOLE
from served import covers, pairs, resolved

from rllm_renderer_core import BridgeDeclined, RenderedTokens, RendererError

FORMATS = {
    # What opens and what closes calls, as the model's template writes it.
    "Qwen/Qwen3-8B": ("<tool_call>", "</tool_call>"),
    "Qwen/Qwen3.5-9B": ("<tool_call>", "</tool_call>"),
    "moonshotai/Kimi-K2.6": ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    "MiniMaxAI/MiniMax-M3": ("<tool_call>", "</tool_call>"),
    "deepseek-ai/DeepSeek-V4-Flash": ("<｜DSML｜", "</｜DSML｜tool_calls>"),
    "zai-org/GLM-5.2": ("<tool_call>", "</tool_call>"),
    "deepseek-ai/DeepSeek-V3.1": ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
}
FEW = [
    ("Qwen/Qwen3-8B", "chat-template"),
    ("moonshotai/Kimi-K2.6", "prime"),
    ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
    ("deepseek-ai/DeepSeek-V4-Flash", "fireworks"),
]
PAIRS = [(model, backend) for model, backend in pairs(FEW) if model in FORMATS]
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}
    for name in ("look", "count")
]
ASKED = [{"role": "user", "content": "How many?"}]
ARGUMENTS = '{"q": "tall lids", "n": 12}'
CALLS = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": f"functions.{name}:{at}", "type": "function", "function": {"name": name, "arguments": ARGUMENTS}}
        for at, name in enumerate(("look", "count"))
    ],
}


@pytest.mark.parametrize(("model", "backend"), PAIRS)
def test_every_cut_inside_two_calls_is_declined(model, backend):
    tokenizer = real_tokenizers.load(model)
    try:
        renderer = resolved(model, backend, parse_check="off")
        prompt = renderer.render_ids(ASKED, tools=TOOLS, add_generation_prompt=True)
        history = renderer.render_ids([*ASKED, CALLS], tools=TOOLS)
    except RendererError as error:
        pytest.skip(f"{backend} renders no calls of {model} here: {str(error).splitlines()[0]}")
    opening, closing = FORMATS[model]
    same = next(n for n, (a, b) in enumerate(zip(prompt, history, strict=False)) if a != b or n == len(prompt) - 1)
    same += prompt[same] == history[same]
    prompt, turn = history[:same], history[same:]
    stops = renderer.get_stop_token_ids()
    turn = turn[: next((at for at, token in enumerate(turn) if token in stops), len(turn))]
    inside = []
    for upto in range(1, len(turn) + 1):
        text = tokenizer.decode(turn[:upto], skip_special_tokens=False)
        if opening not in text or text.count(closing) == 2:
            continue
        if closing in text and (text.rstrip().endswith(closing) or "<|tool_calls" in closing or "｜" in closing):
            continue  # a whole call, or all of them
        inside.append(upto)
    assert len(inside) > 20
    if not WHOLE:  # where a call begins and ends, and now and then between
        inside = [*inside[:12], *inside[12:-12:6], *inside[-12:]]
    new = [{"role": "user", "content": "And?"}]
    bridged = [
        tokenizer.decode(turn[max(0, upto - 4) : upto])
        for upto in inside
        if isinstance(renderer.try_bridge(prompt, turn[:upto], new, tools=TOOLS), RenderedTokens)
    ]
    assert bridged == []


@pytest.fixture
def qwen3():
    """The renderer and the prompt that asks."""
    model = "Qwen/Qwen3-8B"
    renderer = resolved(model)
    return renderer, renderer.render_ids(ASKED, tools=TOOLS, add_generation_prompt=True)


def test_whole_calls_without_their_stop_are_bridged(qwen3):
    """As engines give them that leave the stop out."""
    renderer, prompt = qwen3
    call = '<think>\nwhy\n</think>\n\n<tool_call>\n{"name": "look", "arguments": {"q": 1}}\n</tool_call>'
    sampled = renderer.tokenizer.encode(call, add_special_tokens=False)
    out = renderer.try_bridge(prompt, sampled, [{"role": "user", "content": "And?"}], tools=TOOLS)
    assert isinstance(out, RenderedTokens), out
    assert out.token_ids[: len(prompt) + len(sampled) + 1] == [*prompt, *sampled, *renderer.tokenizer.encode("<|im_end|>")]
    mentioned = renderer.tokenizer.encode("</think>In <tool_call> and", add_special_tokens=False)
    assert isinstance(renderer.try_bridge(prompt, mentioned, [{"role": "user", "content": "And?"}]), BridgeDeclined)


def test_text_that_was_cut_off_is_bridged(qwen3):
    renderer, prompt = qwen3
    thought = renderer.tokenizer.encode("<think>\nis <tool_call> right?\n</think>\n\nThere are", add_special_tokens=False)
    out = renderer.try_bridge(prompt, thought, [{"role": "user", "content": "And?"}], tools=TOOLS)
    assert isinstance(out, RenderedTokens), out


@pytest.mark.parametrize("backend", [each for each in ("prime", "tinker", "chat-template") if covers("Qwen/Qwen3-8B", each)])
@pytest.mark.parametrize("words", [3, 40, 2000])
def test_a_thought_that_the_prompt_has_begun_and_nothing_closed_is_declined(qwen3, backend, words):
    tokenizer = qwen3[0].tokenizer
    renderer = resolved("Qwen/Qwen3-8B", backend)
    prompt = [*qwen3[1], *tokenizer.encode("<think>\n" + "well " * words, add_special_tokens=False)]
    for text, bridged in (("and so<|im_end|>", False), ("and so\n</think>\n\nFour.<|im_end|>", True)):
        out = renderer.try_bridge(
            prompt, tokenizer.encode(text, add_special_tokens=False), [{"role": "user", "content": "And?"}]
        )
        assert isinstance(out, RenderedTokens if bridged else BridgeDeclined), (text, out)
