"""On text that spells no control token, literal text changes no id: generated conversations on real vocabularies.

A few conversations of a few; 200 of each with ``--whole``.
"""

from __future__ import annotations

import functools
import json
import random
import warnings

import generated_turns
import pytest
import shapes
from rllm_renderer_training import supervised
from sampling import WHOLE, how_many
from served import covers, resolved

from rllm_renderer_core import BridgeDeclined, RendererError, RendererWarning
from rllm_renderer_core.guards.marker_text.marker_text import MarkerText
from rllm_renderer_core.normal_form.ids import common_prefix

SUBJECTS = (
    ("Qwen/Qwen3-8B", "prime"),
    ("Qwen/Qwen3-8B", "tinker"),
    ("Qwen/Qwen3-8B", "tml"),
    ("Qwen/Qwen3-8B", "chat-template"),
    ("zai-org/GLM-5", "prime"),
    ("deepseek-ai/DeepSeek-V3.1", "tinker"),
    ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
    ("google/gemma-4-E2B-it", "chat-template"),
    ("meta-llama/Llama-3.2-3B-Instruct", "chat-template"),
    ("openai/gpt-oss-20b", "tinker"),
    ("openai/gpt-oss-20b", "prime"),
    ("openai/gpt-oss-20b", "tml"),
    ("zai-org/GLM-5.2", "fireworks"),
)
SAMPLE = [pair for pair in (SUBJECTS if WHOLE else SUBJECTS[4:8]) if covers(*pair)]
NEAR = (
    "<|",
    "|>",
    "<|im_",
    "</",
    "< think >",
    "<tool",
    "[INST",
    "<｜",
    "&lt;|im_end|&gt;",
    "<|im_end |>",
    "﹤|im_end|﹥",
    "<br>",
)
"""Texts that look like control tokens of some format, and spell none of any."""


def conversations(seed, count):
    draw = random.Random(seed)
    turns = iter(generated_turns.drawn(seed, count * 4))
    text = lambda: " ".join(draw.choice(generated_turns.WORDS + NEAR) for _ in range(draw.randint(1, 4)))  # noqa: E731
    for _ in range(count):
        messages = [{"role": "system", "content": text()}] if draw.random() < 0.5 else []
        for at in range(draw.randint(1, 3)):
            messages.append({"role": "user", "content": text()})
            turn = next(turns)
            spoken = {"role": "assistant", "content": turn.content}
            if turn.reasoning:
                spoken["reasoning_content"] = turn.reasoning
            if turn.calls:
                spoken["tool_calls"] = [
                    {"id": f"functions.{name}:{n}{at}", "function": {"name": name, "arguments": json.dumps(arguments)}}
                    for n, (name, arguments) in enumerate(turn.calls)
                ]
            messages.append(spoken)
            for call in spoken.get("tool_calls", ()):
                messages.append({"role": "tool", "content": text(), "tool_call_id": call["id"]})
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": text()})
        yield messages, generated_turns.TOOLS if draw.random() < 0.7 else None


@functools.cache
def subjects(model, backend):
    """Its renderers with literal text and without."""
    return tuple(resolved(model, backend, marker_text=mode, dropped="warn") for mode in ("literal", "allow"))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RendererWarning)
        yield


@pytest.mark.parametrize(("model", "backend"), SAMPLE)
def test_no_id_of_a_render_changes(model, backend):
    literal, allowing = subjects(model, backend)
    rendered = 0
    markers = MarkerText("literal", literal.tokenizer).tokenizer.markers
    for messages, tools in conversations(f"{model} {backend}", how_many(15, 200)):
        assert not markers.in_text(json.dumps([messages, tools], ensure_ascii=False))
        try:
            expected = allowing.render_ids(messages, tools=tools, add_generation_prompt=True)
        except RendererError as error:
            with pytest.raises(type(error)):
                literal.render_ids(messages, tools=tools, add_generation_prompt=True)
            continue
        assert literal.render_ids(messages, tools=tools, add_generation_prompt=True) == expected
        rendered += 1
    assert rendered > 5


@pytest.mark.parametrize(("model", "backend"), SAMPLE)
def test_no_id_of_a_bridge_changes(model, backend):
    literal, allowing = subjects(model, backend)
    stops = allowing.get_stop_token_ids()
    for shape in shapes.SHAPES:
        tools = shapes.TOOLS if shape.assistant.get("tool_calls") else None
        try:
            prompt = allowing.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
            through = allowing.render_ids([*shapes.OPENING, shape.assistant], tools=tools)
        except RendererError:
            continue
        start = common_prefix(prompt, through)
        end = next((at for at in range(start, len(through)) if through[at] in stops), len(through) - 1)
        one, other = (
            each.try_bridge(prompt, through[start : end + 1], shape.new, tools=tools, previous_message=shape.assistant)
            for each in (literal, allowing)
        )
        if isinstance(other, BridgeDeclined):
            assert isinstance(one, BridgeDeclined) and one.reason == other.reason
        else:
            assert one.token_ids == other.token_ids, shape.name


@pytest.mark.parametrize(("model", "backend"), SAMPLE)
def test_no_id_of_a_supervised_example_changes(model, backend):
    literal, allowing = subjects(model, backend)
    made = 0
    for messages, tools in conversations(f"trained {model} {backend}", how_many(4, 50)):
        try:
            expected = supervised(allowing, messages, tools=tools, unreachable="skip")
        except RendererError as error:
            with pytest.raises(type(error)):
                supervised(literal, messages, tools=tools, unreachable="skip")
            continue
        assert list(supervised(literal, messages, tools=tools, unreachable="skip")) == list(expected)
        made += len(expected)
    assert made
