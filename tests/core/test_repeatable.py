"""The same completion gives the same answer each time: on a warm renderer, on a fresh one, in any order, over threads.

A memory may save work and never changes an answer. Some hundreds of damaged completions by default, 20,000 with ``--whole``.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import real_tokenizers
import shapes
from parse_formats import QWEN, served, xml
from sampling import how_many
from served import pairs, shown_tools

from rllm_renderer_core import RendererError, ToolCallStatus, resolve

COUNT = how_many(25, 350)
FEW = [
    ("Qwen/Qwen3-8B", "prime"), (QWEN, "prime"), (QWEN, "tinker"), ("deepseek-ai/DeepSeek-V3.1", "tinker"),
    ("deepseek-ai/DeepSeek-V4-Flash", "tml"), ("zai-org/GLM-5", "chat-template"), ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
    ("openai/gpt-oss-20b", "prime"),
]  # fmt: skip
TOOLS = shapes.TOOLS


def completions(renderer, seed):
    """Prompts, completions and tools of the format: turns as it writes them, whole, cut, and with ids dropped, doubled or
    moved."""
    chance = random.Random(seed)
    tools = shown_tools(renderer)
    prompt = renderer.render_ids([shapes.user("ping")], tools=tools, add_generation_prompt=True)
    turns = []
    for text, calls in (("four", []), ("", [shapes.call("look", "functions.look:0", "tea")]), (" Let me.\n", [])):
        turn = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        try:
            whole = renderer.render_ids([shapes.user("ping"), turn], tools=tools)
        except RendererError:
            continue
        turns.append(whole[len(prompt) :] if whole[: len(prompt)] == prompt else whole[-24:])
    for _ in range(COUNT):
        ids = list(chance.choice(turns))
        for _ in range(chance.choice((0, 1, 1, 2))):
            at, other = chance.randrange(len(ids)), chance.randrange(len(ids))
            kind = chance.randrange(4)
            if kind == 0:
                del ids[max(1, at) :]
            elif kind == 1 and len(ids) > 1:
                del ids[at]
            elif kind == 2:
                ids.insert(at, ids[other])
            else:
                ids[at], ids[other] = ids[other], ids[at]
        yield prompt, ids, tools


def answer(renderer, prompt, ids, tools):
    """All that a renderer says of a completion, as text that can be compared."""
    parsed = renderer.parse_response(ids, tools=tools, prompt_ids=prompt)
    statuses = [(dict(call), call.raw, str(call.status)) for call in parsed.tool_calls]
    new = [{"role": "tool", "content": "five", "tool_call_id": call["id"]} for call in parsed.tool_calls] or [
        shapes.user("And?")
    ]
    bridged = renderer.try_bridge(prompt, ids, new, tools=tools, previous_message=parsed.to_message())
    history = [shapes.user("ping"), parsed.to_message(), shapes.user("And?")]
    try:
        rendered = renderer.render_ids(history, tools=tools, add_generation_prompt=True)
    except RendererError as error:
        rendered = str(error)
    return json.dumps(
        [
            (parsed.content, parsed.reasoning_content, statuses, str(parsed.termination), parsed.lossless, parsed.loss),
            getattr(bridged, "token_ids", None) or str(bridged),
            rendered,
        ]
    )


@pytest.mark.parametrize(("model", "backend"), pairs(FEW))
def test_a_warm_and_a_fresh_renderer_say_the_same_in_any_order_over_threads(model, backend):
    tokenizer = real_tokenizers.load(model)
    warm = resolve(model, tokenizer, backend=backend, parity="off")
    cases = list(completions(warm, f"{model} {backend}"))
    first = [answer(warm, *case) for case in cases]
    order = random.Random(1).sample(range(len(cases)), len(cases))
    again = {at: answer(warm, *cases[at]) for at in order}
    fresh = resolve(model, tokenizer, backend=backend, parity="off")
    with ThreadPoolExecutor(4) as pool:
        others = dict(zip(order, pool.map(lambda at: answer(fresh, *cases[at]), order), strict=True))
    assert [at for at in order if not first[at] == again[at] == others[at]] == []


@pytest.mark.parametrize("backend", ["prime", "tinker", "chat-template"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"path": {"type": "string"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"path": {"type": "string"}}}}},
        {"type": "object", "properties": {"path": {"$ref": "#/$defs/P"}}, "$defs": {"P": {"type": "string"}}},
        {"type": "object", "anyOf": [{"properties": {"path": {"type": "string"}}}]},
        {"type": "object", "oneOf": [{"properties": {"path": {"type": "string"}}}]},
        {"type": "object", "allOf": [{"properties": {"path": {"type": "string"}}}]},
        {"type": "object", "if": {"required": ["path"]}, "then": {"properties": {"path": {"type": "string"}}}},
        {"type": "object", "patternProperties": {"^pa": {"type": "string"}}},
    ],
    ids=["plain", "$ref", "$ref inside", "anyOf", "oneOf", "allOf", "if/then", "patternProperties"],
)
def test_digits_of_a_declared_string_are_text_each_time_whatever_the_form_of_the_schema(backend, parameters):
    renderer, tokenizer = served(backend, QWEN)
    tools = [{"type": "function", "function": {"name": "rm", "parameters": parameters}}]
    ids = tokenizer.encode(f"</think>\n\n{xml(('path', '10001'))}<|im_end|>", add_special_tokens=False)
    prompt = renderer.render_ids([shapes.user("ping")], tools=tools, add_generation_prompt=True)
    for _ in range(3):
        (call,) = renderer.parse_response(ids, tools=tools, prompt_ids=prompt).tool_calls
        assert (call.status, call.arguments) == (ToolCallStatus.OK, {"path": "10001"})


def test_a_call_whose_value_is_its_name_or_key_is_ok_each_time():
    renderer, _ = served("minimax-m3", "MiniMaxAI/MiniMax-M3")
    prompt = renderer.render_ids([shapes.user("ping")], add_generation_prompt=True)
    for name, key, value in (("look", "a", "x"), ("f", "f", "f")):
        function = {"name": name, "arguments": json.dumps({key: value})}
        turn = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
        ids = renderer.render_ids([shapes.user("ping"), turn])[len(prompt) :]
        stop = next(at for at, token in enumerate(ids) if token in renderer.get_stop_token_ids())
        for _ in range(3):
            (call,) = renderer.parse_response(ids[: stop + 1], prompt_ids=prompt).tool_calls
            assert (call.status, call.name, call.arguments) == (ToolCallStatus.OK, name, {key: value})


@pytest.mark.parametrize("backend", ["prime", "tinker", "chat-template"])
@pytest.mark.parametrize("token", ["<|image_pad|>", "<|fim_prefix|>", "<|im_start|>"])
def test_a_special_token_in_the_answer_is_no_clean_end_on_any_backend(backend, token):
    renderer, tokenizer = served(backend, "Qwen/Qwen3-8B")
    ids = tokenizer.encode(f"<think>\nwhy\n</think>\n\nsee {token} here<|im_end|>", add_special_tokens=False)
    assert renderer.parse_response(ids).termination == "malformed"
