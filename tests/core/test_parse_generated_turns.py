"""Generated turns through every backend that reads a model, with the parse contract: right or flagged, never wrong.

A few models and turns; all of them, 500 turns each, with ``--whole``.
"""

from __future__ import annotations

import pytest
import real_tokenizers
from generated_turns import Template, drawn, verdicts
from sampling import how_many
from served import pairs, resolved

FEW = [
    ("Qwen/Qwen3.5-0.8B", "chat-template"),
    ("zai-org/GLM-5", "prime"),
    ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
    ("openai/gpt-oss-20b", "tml"),
    ("openai/gpt-oss-20b", "prime"),
    ("google/gemma-4-E2B-it", "chat-template"),
    ("Qwen/Qwen3.5-9B", "tinker"),
]
PAIRS = [(model, backend) for model, backend in pairs(FEW) if real_tokenizers.MODELS[model].template is not None]
TURNS = how_many(15, 500)
OTHERWISE = {("openai/gpt-oss-20b", "tml")}
"""Where upstream's parser reads a call as it is sampled, and not as the chat template writes it in history: flagged."""


@pytest.mark.parametrize(("model", "backend"), PAIRS)
def test_generated_turns_are_right_or_flagged(model, backend):
    tokenizer, renderer = real_tokenizers.load(model), resolved(model, backend)
    template = Template(tokenizer)
    if not template.shows_calls:
        pytest.skip(f"nothing to read back: the template of {model} shows no calls")
    found = verdicts(template, renderer, drawn(model, TURNS), renderer.get_stop_token_ids())
    print(model, backend, dict(found))
    assert not found["wrong"] and found.total() > TURNS / 3
    if (model, backend) not in OTHERWISE:
        assert found["right"] + found["alike"] >= 0.95 * found.total()


def test_stops_of_a_chat_template_are_those_that_its_history_shows():
    model = "google/gemma-4-E2B-it"
    tokenizer = real_tokenizers.load(model)
    stops = tokenizer.convert_ids_to_tokens(resolved(model, "chat-template").get_stop_token_ids())
    assert {"<turn|>", "<|tool_response>"} <= set(stops)  # a turn of calls ends with the opener of their results
