"""Completions on prime: calls with their types and statuses, reasoning, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import shapes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rllm_renderer_prime.parsing import json_text_in, untyped

from rllm_renderer_core.normal_form.arguments import Schema
from rllm_renderer_core.types import Termination, ToolCallStatus

Prime = Callable[..., Any]
Tokenizers = Callable[[str], Any]

QWEN3, QWEN35, GLM, MINIMAX = "Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "zai-org/GLM-5", "MiniMaxAI/MiniMax-M2"
NEMOTRON = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
KIMI, V3, LLAMA, GEMMA = (
    "moonshotai/Kimi-K2.6",
    "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.2-3B-Instruct",
    "google/gemma-4-E2B-it",
)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look.",
            "parameters": {
                "type": "object",
                "properties": {
                    "q": {"type": "string"},
                    "deep": {"type": "boolean"},
                    "n": {"type": ["integer", "null"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    }
]


def written(model: str, **arguments: str) -> str:
    """A call of look as the model writes it, its arguments as bare text; the stop is sampled."""
    if model in (QWEN35, NEMOTRON):
        body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
        return f"x\n</think>\n\n<tool_call>\n<function=look>\n{body}</function>\n</tool_call><|im_end|>"
    if model == GLM:
        body = "".join(f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in arguments.items())
        return f"x</think><tool_call>look{body}</tool_call><|observation|>"
    body = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in arguments.items())
    return f'x\n</think>\n\n<minimax:tool_call>\n<invoke name="look">\n{body}</invoke>\n</minimax:tool_call>[e~['


def parsed(model: str, text: str, prime: Prime, tokenizer_of: Tokenizers, tools: Any = None) -> Any:
    renderer = prime(model)
    prompt = renderer.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
    return renderer.parse_response(shapes.encode(tokenizer_of(model), text), tools=tools, prompt_ids=prompt)


@pytest.mark.parametrize("model", [QWEN35, NEMOTRON, GLM, MINIMAX])
@pytest.mark.parametrize(
    ("key", "text", "value", "status"),
    [
        ("deep", "false", False, "ok"),
        ("deep", "False", False, "ok"),
        ("deep", "FALSE", False, "ok"),
        ("deep", "True", True, "ok"),
        ("deep", "no", "no", "invalid_argument"),
        ("deep", "1", "1", "invalid_argument"),
        ("q", "[1, 2]", "[1, 2]", "ok"),
        ("q", "0042", "0042", "ok"),
        ("q", "true", "true", "ok"),
        ("q", "    return x", "    return x", "ok"),
        ("n", "42", 42, "ok"),
        ("n", "null", None, "ok"),
        ("n", "4.5", "4.5", "invalid_argument"),
        ("tags", '["a", "b"]', ["a", "b"], "ok"),
        ("tags", "a, b", "a, b", "invalid_argument"),
        ("other", "[1]", [1], "ok"),
        ("other", "free text", "free text", "ok"),
    ],
)
def test_arguments_have_the_types_that_are_declared(
    model: str, key: str, text: str, value: Any, status: str, prime: Prime, tokenizer_of: Tokenizers
) -> None:
    out = parsed(model, written(model, **{key: text}), prime, tokenizer_of, TOOLS)
    (call,) = out.tool_calls
    assert (call.arguments, call.status) == ({key: value}, ToolCallStatus(status))
    assert out.termination is Termination.STOP and call.name == "look" and call.raw


@pytest.mark.parametrize("model", [QWEN35, NEMOTRON, GLM, MINIMAX])
def test_without_tools_text_is_text_and_the_call_is_fine(model: str, prime: Prime, tokenizer_of: Tokenizers) -> None:
    """The gateway parses without tools. Upstream calls such text invalid JSON."""
    (call,) = parsed(model, written(model, q="tea leaves"), prime, tokenizer_of).tool_calls
    assert (call.arguments, call.status) == ({"q": "tea leaves"}, ToolCallStatus.OK)


ONE_CALL = {
    QWEN3: '<tool_call>\n{"name": "look", "arguments": {"q":"tea"}}\n</tool_call><|im_end|>',
    QWEN35: written(QWEN35, q="tea"),
    GLM: written(GLM, q="tea"),
    MINIMAX: written(MINIMAX, q="tea"),
    NEMOTRON: written(NEMOTRON, q="tea"),
    KIMI: "x</think><|tool_calls_section_begin|><|tool_call_begin|>functions.look:7<|tool_call_argument_begin|>"
    '{"q":"tea"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>',
    V3: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{"q":"tea"}\n```<｜tool▁call▁end｜>'
    "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    LLAMA: '{"name": "look", "parameters": {"q":"tea"}}<|eot_id|>',
    GEMMA: '<|tool_call>call:look{q:<|"|>tea<|"|>}<tool_call|><|tool_response>',
}


@pytest.mark.parametrize("model", list(ONE_CALL))
def test_one_call_is_the_same_neutral_call_everywhere(model: str, prime: Prime, tokenizer_of: Tokenizers) -> None:
    """With the native id where the format has one, and argument text as the model wrote it where it is JSON."""
    out = parsed(model, ONE_CALL[model], prime, tokenizer_of, TOOLS)
    (call,) = out.tool_calls
    assert (call.name, call.arguments, call.status) == ("look", {"q": "tea"}, ToolCallStatus.OK)
    assert (out.content, out.termination, out.reasoning_complete) == ("", Termination.STOP, True)
    native = prime(model).upstream.parse_response(shapes.encode(tokenizer_of(model), ONE_CALL[model])).tool_calls[0].id
    assert native == ("functions.look:7" if model == KIMI else None)
    assert call.id and (native is None or call.id == native)
    if model in (QWEN3, KIMI, V3, LLAMA):
        assert call["function"]["arguments"] == '{"q":"tea"}'


BROKEN = [
    (QWEN3, "<tool_call>\n{bad\n</tool_call><|im_end|>", "invalid_json"),
    (QWEN3, '<tool_call>\n{"arguments": {}}\n</tool_call><|im_end|>', "missing_name"),
    (QWEN3, '<tool_call>\n{"name": 5, "arguments": {}}\n</tool_call><|im_end|>', "missing_name"),
    (QWEN3, '<tool_call>\n{"name": "look", "arguments": [1]}\n</tool_call><|im_end|>', "malformed_structure"),
    (QWEN3, '<tool_call>\n{"name": "look"', "unclosed_block"),
    (QWEN35, "x</think><tool_call>\nlook\n</tool_call><|im_end|>", "malformed_structure"),
    (QWEN35, "x</think><tool_call>\n<function=look>\n<parameter=q>\ntea", "unclosed_block"),
    (GLM, "x</think><tool_call>count<arg_key>q</arg_key><arg_value>x</arg_value></tool_call><|observation|>", "unknown_tool"),
    (GLM, "x</think><tool_call>look<arg_key>q</arg_key></tool_call><|observation|>", "malformed_structure"),
    (KIMI, ONE_CALL[KIMI].replace('{"q":"tea"}', "{q"), "invalid_json"),
]


@pytest.mark.parametrize(("model", "text", "status"), BROKEN)
def test_broken_attempts_are_kept_with_their_status(
    model: str, text: str, status: str, prime: Prime, tokenizer_of: Tokenizers
) -> None:
    out = parsed(model, text, prime, tokenizer_of, TOOLS)
    (call,) = out.tool_calls
    assert call.status is ToolCallStatus(status) and call.raw
    assert call.name or call.status is not ToolCallStatus.OK
    if status == "unclosed_block":
        assert out.termination is Termination.TRUNCATED
    else:
        assert out.termination is (Termination.STOP if status == "unknown_tool" else Termination.MALFORMED)


def test_order_is_kept_and_good_calls_between_broken_ones(prime: Prime, tokenizer_of: Tokenizers) -> None:
    good = ONE_CALL[QWEN3].removesuffix("<|im_end|>")
    out = parsed(QWEN3, f"{good}\n<tool_call>\n{{bad\n</tool_call>\n{good}<|im_end|>", prime, tokenizer_of)
    assert [call.status.value for call in out.tool_calls] == ["ok", "invalid_json", "ok"]


def test_a_call_that_was_sketched_in_reasoning_is_none(prime: Prime, tokenizer_of: Tokenizers) -> None:
    for model in (QWEN35, NEMOTRON, MINIMAX, GLM):
        text = written(model, q="tea")
        closed = text.partition("</think>")[2]
        inside = closed.removesuffix("<|im_end|>").removesuffix("<|observation|>").removesuffix("[e~[")
        out = parsed(model, f"Maybe {inside} or {text}", prime, tokenizer_of, TOOLS)
        assert [call.arguments for call in out.tool_calls] == [{"q": "tea"}]
        assert "look" in out.reasoning_content and out.reasoning_complete


@pytest.mark.parametrize("model", [QWEN35, NEMOTRON, MINIMAX, GLM, KIMI])
def test_a_cut_inside_reasoning(model: str, prime: Prime, tokenizer_of: Tokenizers) -> None:
    out = parsed(model, "Weighing both, the first", prime, tokenizer_of)
    assert (out.reasoning_content, out.content) == ("Weighing both, the first", "")
    assert (out.reasoning_complete, out.termination) == (False, Termination.TRUNCATED)


@pytest.mark.parametrize(
    ("text", "termination"),
    [
        ("four<|im_end|>", Termination.STOP),
        ("four<|endoftext|>", Termination.STOP),
        ("four", Termination.TRUNCATED),
        ("", Termination.TRUNCATED),
        ("four<|im_end|><|endoftext|>", Termination.MALFORMED),
        ("four<|im_end|>\n", Termination.MALFORMED),
        ("<think>\nfour<|im_end|>", Termination.MALFORMED),
    ],
)
def test_termination(text: str, termination: Termination, prime: Prime, tokenizer_of: Tokenizers) -> None:
    assert parsed(QWEN3, text, prime, tokenizer_of).termination is termination


@pytest.mark.parametrize("model", [QWEN3, QWEN35, GLM, MINIMAX, V3, LLAMA, "openai/gpt-oss-20b"])
def test_parsing_never_raises(model: str, prime: Prime, tokenizer_of: Tokenizers) -> None:
    renderer, size = prime(model).upstream, len(tokenizer_of(model))
    control = sorted(tokenizer_of(model).get_added_vocab().values())
    ids = st.lists(st.one_of(st.sampled_from(control), st.integers(0, size + 500)), max_size=30)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(ids, st.one_of(st.none(), ids), st.sampled_from([None, TOOLS]))
    def check(token_ids: list[int], prompt: list[int] | None, tools: Any) -> None:
        out = renderer.parse_response(token_ids, tools=tools, prompt_ids=prompt)
        assert all(call.name or call.status is not ToolCallStatus.OK for call in out.tool_calls)

    check()


def test_json_that_is_nested_too_deep_is_no_crash(prime: Prime, tokenizer_of: Tokenizers) -> None:
    deep = '{"name": "look", "arguments": ' + "[" * 5000 + "]" * 5000 + "}"
    out = prime(QWEN3).upstream.parse_response(shapes.encode(tokenizer_of(QWEN3), f"<tool_call>{deep}</tool_call><|im_end|>"))
    assert out.termination is Termination.MALFORMED


@pytest.mark.parametrize(
    ("text", "schema", "value", "fits"),
    [
        ("5", {"anyOf": [{"type": "string"}, {"type": "null"}]}, "5", True),
        ("null", {"anyOf": [{"type": "string"}, {"type": "null"}]}, None, True),
        ("5", {"type": ["string", "integer"]}, "5", True),
        ("x5", {"type": ["string", "integer"]}, "x5", True),
        ("5", {"type": "integer", "nullable": True}, 5, True),
        ("5.0", {"type": "integer"}, 5.0, True),
        ("true", {"type": "integer"}, "true", False),
        ("red", {"enum": ["red", "green"]}, "red", True),
        ("5", {"enum": ["5", "6"]}, "5", True),
        ("5", {"$ref": "#/x"}, 5, True),
        ("x", {"$ref": "#/x"}, "x", True),
        ('{"a": 1}', {"type": "object"}, {"a": 1}, True),
        ("5", True, 5, True),
    ],
)
def test_reading_under_a_schema(text: str, schema: Any, value: Any, fits: bool) -> None:
    assert Schema(schema).typed(text) == (value, fits)


def test_declarations_are_not_changed() -> None:
    before = str(TOOLS)
    assert untyped(TOOLS) != TOOLS and str(TOOLS) == before
    assert untyped(None) is None


def test_the_arguments_in_a_raw_call() -> None:
    assert json_text_in('{"name": "f", "arguments": {"a":  1.50}}', {"a": 1.5}) == '{"a":  1.50}'
    assert json_text_in("no json", {"a": 1}) is None
