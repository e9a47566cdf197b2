"""``accumulate_reasoning``: prompts whose history has the reasoning of earlier turns, against the official templates."""

from __future__ import annotations

import pytest
import real_tokenizers
import rllm_renderer_rllm as rllm
import scripted_rollout as script
from rllm_renderer_training import UnreachableTurnError

from rllm_renderer_core.errors import UnsupportedContentError

CALL = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": {"q": "lids"}}}
MESSAGES = [
    {"role": "user", "content": "How many lids?"},
    {"role": "assistant", "content": "", "reasoning_content": "Look them up.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_0", "name": "look", "content": "7"},
    {"role": "assistant", "content": "Seven.", "reasoning_content": "It says seven."},
    {"role": "user", "content": "And boats?"},
]
SHOWN = {
    "Qwen/Qwen3.6-35B-A3B": {"preserve_thinking": True},
    "zai-org/GLM-5": {"clear_thinking": False},
}
"""The variable by which a model's template shows all reasoning."""


def renderer_of(model):
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    return rllm.get_renderer(model, real_tokenizers.load(model))


@pytest.mark.parametrize("model", SHOWN)
def test_it_is_what_the_template_shows_where_the_template_can_show_it(model):
    renderer = renderer_of(model)
    text = renderer.tokenizer.apply_chat_template(
        MESSAGES, tools=script.TOOLS, add_generation_prompt=True, tokenize=False, **SHOWN[model]
    )
    official = renderer.tokenizer.encode(text, add_special_tokens=False)
    assert renderer.token_input(MESSAGES, script.TOOLS, accumulate_reasoning=True) == official
    assert renderer.token_input(MESSAGES, script.TOOLS) != official


def test_a_format_without_such_a_variable_shows_turns_as_they_were_sampled():
    renderer = renderer_of("Qwen/Qwen3-8B")
    said = MESSAGES[3:4]
    messages = [MESSAGES[0], *said, MESSAGES[4]]
    history = "<|im_start|>user\nHow many lids?<|im_end|>\n<|im_start|>assistant\n{}Seven.<|im_end|>\n"
    rest = "<|im_start|>user\nAnd boats?<|im_end|>\n<|im_start|>assistant\n"
    kept, dropped = (renderer.token_input(messages, accumulate_reasoning=choice) for choice in (True, False))
    assert renderer.tokenizer.decode(kept) == history.format("<think>\nIt says seven.\n</think>\n\n") + rest
    assert renderer.tokenizer.decode(dropped) == history.format("") + rest
    parser = renderer.chat_parser
    text = parser.parse(messages, add_generation_prompt=True, is_first_msg=True, accumulate_reasoning=True)
    assert text == renderer.tokenizer.decode(kept)


def test_without_reasoning_there_is_nothing_to_keep():
    renderer = renderer_of("Qwen/Qwen3-8B")
    messages = [MESSAGES[0], {"role": "assistant", "content": "Seven."}, MESSAGES[4]]
    assert renderer.token_input(messages, accumulate_reasoning=True) == renderer.token_input(messages)


def test_a_turn_that_the_model_cant_have_said_is_refused():
    """GLM-5's generation prompt opens reasoning, so that every turn has some."""
    renderer = renderer_of("zai-org/GLM-5")
    messages = [*MESSAGES, {"role": "assistant", "content": "Four."}, MESSAGES[0]]
    with pytest.raises(UnreachableTurnError):
        renderer.token_input(messages, script.TOOLS, accumulate_reasoning=True)


def test_images_beside_it_are_refused():
    renderer = renderer_of("Qwen/Qwen3-8B")
    with pytest.raises(UnsupportedContentError):
        renderer.token_input(
            [*MESSAGES[:-1], {"role": "user", "content": "?", "images": [object()]}], accumulate_reasoning=True
        )
