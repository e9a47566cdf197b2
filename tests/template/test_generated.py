"""Generated turns and broken completions through the learned parser of real models: right or flagged, never wrong.

A small sample of models and turns; all of them with ``--whole``.
"""

from __future__ import annotations

import collections
import functools
import json
import random

import pytest
import real_tokenizers
from generated_turns import TOOLS, Template, drawn, verdicts
from sampling import chosen, how_many

from rllm_renderer_core import Termination, ToolCallStatus, resolve

TURNS = how_many(25, 500)
MUTATIONS = how_many(150, 2_000)
FEW = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3.5-9B",
    "Qwen/Qwen3.5-0.8B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "MiniMaxAI/MiniMax-M3",
    "google/gemma-4-E2B-it",
)
MODELS = [model for model in real_tokenizers.here() if real_tokenizers.MODELS[model].template is not None]
SAMPLE = chosen(MODELS, FEW)


@functools.cache
def of(model):
    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    renderer = resolve(model, tokenizer, backend="chat-template", parity="off")
    template = Template(tokenizer)
    parser = renderer.upstream.parser
    if not parser.parses_tool_calls:
        assert not template.shows_calls, parser.why_no_tool_calls
        pytest.skip(f"nothing to prove for {model}: its template shows no tool calls")
    return parser, template


@pytest.mark.parametrize("model", SAMPLE)
def test_generated_turns_are_right_or_flagged(model):
    parser, template = of(model)
    found = verdicts(template, parser, drawn(model, TURNS), parser.stop_ids)
    print(model, dict(found))
    assert not found["wrong"]
    assert found["right"] + found["alike"] >= 0.99 * found.total() and found.total() > TURNS / 3


def mutated(ids, others, draw):
    """Cut, or with ids dropped, doubled, swapped or put in from other completions."""
    ids = list(ids)
    for _ in range(draw.choice((1, 1, 2, 3))):
        if not ids:
            return ids
        at, other = draw.randrange(len(ids)), draw.randrange(len(ids))
        kind = draw.randrange(5)
        if kind == 0:
            ids = ids[:at]
        elif kind == 1:
            del ids[at]
        elif kind == 2:
            ids.insert(at, ids[other])
        elif kind == 3:
            ids[at], ids[other] = ids[other], ids[at]
        else:
            ids[at:at] = draw.sample(others, min(len(others), 2))
    return ids


@pytest.mark.parametrize("model", SAMPLE)
def test_mutated_completions_lose_nothing_and_invent_no_call(model):
    parser, template = of(model)
    draw = random.Random(model)
    made = list(template.completions(drawn(model, 20), parser.stop_ids))
    pool = [token for _, ids, _, _ in made for token in ids]
    for _ in range(MUTATIONS):
        prompt, ids, _, _ = draw.choice(made)
        broken = mutated(ids, pool, draw)
        out = parser.parse_response(broken, tools=TOOLS, prompt_ids=prompt)
        text = template.tokenizer.decode(broken, skip_special_tokens=False)
        kept = out.content + (out.reasoning_content or "") + "".join(call.raw for call in out.tool_calls)
        if out.termination is not Termination.MALFORMED:
            # Every word is somewhere: in content, in reasoning, in a call's own text, or it is the format's.
            frame = "".join(parser.delimiters.values()) + template.tokenizer.decode(sorted(parser.stop_ids))
            lost = collections.Counter(text) - collections.Counter(kept + frame * 2)
            assert not {char for char in lost if char.isalnum() and char not in frame}, (text, out)
        for call in out.tool_calls:
            if call.status is ToolCallStatus.OK:
                json.dumps(call.arguments, allow_nan=False)
                for value in call.arguments.values():
                    if isinstance(value, str) and value.isprintable() and value.isalnum():
                        assert value in text, (value, text)
