"""A prompt that ends in a thought which the caller began: what is sampled behind it goes on with it, however long it is."""

from __future__ import annotations

import pytest
import shapes
from parse_formats import GLM, QWEN, TOOLS, glm, served, xml

KIMI, GEMMA = "moonshotai/Kimi-K2.6", "google/gemma-4-E2B-it"


def kimi(*pairs):
    return (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.rm:0<|tool_call_argument_begin|>"
        '{"path": "/tmp"}<|tool_call_end|><|tool_calls_section_end|>'
    )


def gemma(*pairs):
    return '<|tool_call>call:rm{path:<|"|>/tmp<|"|>}<tool_call|>'


THINK, CHANNEL = ("<think>", "</think>"), ("<|channel>thought\n", "<channel|>")
CASES = [
    ("chat-template", QWEN, THINK, xml), ("tinker", QWEN, THINK, xml), ("tml", QWEN, THINK, xml),
    ("prime", KIMI, THINK, kimi), ("chat-template", KIMI, THINK, kimi), ("fireworks", GLM, THINK, glm),
    ("chat-template", GEMMA, CHANNEL, gemma),
]  # fmt: skip
each = pytest.mark.parametrize(
    ("backend", "model", "marks", "call"), CASES, ids=[f"{backend}-{model}" for backend, model, _, _ in CASES]
)


def prompted(backend, model):
    """The renderer, its tokenizer, and its prompt behind a user's message."""
    resolved, tokenizer = served(backend, model)
    return resolved, tokenizer, list(resolved.render_ids([shapes.user("x")], tools=TOOLS, add_generation_prompt=True))


def begun(tokenizer, prompt, opening, words):
    """The prompt with a thought of so many words, opened where it isn't."""
    text = tokenizer.decode(prompt)
    opened = text.rfind(opening.strip()) > max(text.rfind("</think>"), text.rfind("<channel|>"))
    return prompt + shapes.encode(tokenizer, ("" if opened else opening) + "well " * words)


@each
@pytest.mark.parametrize("words", [10, 5000])
def test_a_thought_goes_on_behind_what_was_written_of_it(backend, model, marks, call, words):
    resolved, tokenizer, prompt = prompted(backend, model)
    prompt = begun(tokenizer, prompt, marks[0], words)
    cut = resolved.parse_response(shapes.encode(tokenizer, "and so"), tools=TOOLS, prompt_ids=prompt)
    assert (cut.reasoning_content, cut.content, cut.reasoning_complete) == ("and so", "", False)
    stop = resolved.get_stop_token_ids()[:1]
    thought = shapes.encode(tokenizer, f"maybe {call(('path', '/tmp'))} or not{marks[1]}four")
    whole = resolved.parse_response([*thought, *stop], tools=TOOLS, prompt_ids=prompt)
    assert not whole.runnable and whole.content.strip() in ("four", "or not" + marks[1] + "four"), whole
