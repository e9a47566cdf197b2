"""gpt-oss: harmony is the reference, its vocabulary comes from anywhere, its completions begin in the middle of a header."""

from __future__ import annotations

import datetime
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import shapes
from harmony_oracle import render as reference
from rllm_renderer_prime import harmony

from rllm_renderer_core import BridgeDeclined, TokenizerError, resolve
from rllm_renderer_core.types import Termination, ToolCallStatus

NAME = "openai/gpt-oss-20b"
CALL = (
    "<|channel|>analysis<|message|>Weighing.<|end|><|start|>assistant<|channel|>commentary to=functions.look "
    '<|constrain|>json<|message|>{"q":  "tea"}<|call|>'
)
FINAL = "<|channel|>analysis<|message|>Weighing.<|end|><|start|>assistant<|channel|>final<|message|>four<|return|>"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    import real_tokenizers

    why = real_tokenizers.missing(NAME)
    if why:
        pytest.skip(why)
    return real_tokenizers.load(NAME)


@pytest.fixture(scope="module", autouse=True)
def vocabulary(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A vocabulary file, so that harmony itself can be asked offline."""
    folder = tmp_path_factory.mktemp("vocabulary")
    ranks = harmony.ranks_of(tokenizer)
    assert ranks is not None
    (folder / harmony.FILE).write_bytes(ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(harmony.FOLDER_VARIABLE, str(folder))
        yield


@pytest.fixture(scope="module")
def renderer(tokenizer: Any, vocabulary: None) -> Any:
    return resolve(NAME, tokenizer)


@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda shape: shape.name)
def test_render_and_bridge_equal_harmony(shape: shapes.Shape, renderer: Any, tokenizer: Any) -> None:
    messages = [*shapes.OPENING, shape.assistant, *shape.new]
    for tools in (None, shapes.TOOLS):
        full = reference(messages, tools, opener=True)
        assert renderer.render_ids(messages, tools=tools, add_generation_prompt=True) == full
        for result in (shape, shape.unnamed()):
            prompt = renderer.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
            assert prompt == reference(shapes.OPENING, tools, opener=True)
            sampled = shapes.encode(tokenizer, CALL if shape.assistant.get("tool_calls") else FINAL)
            out = renderer.bridge_to_next_turn(prompt, sampled, result.new, tools=tools, previous_message=shape.assistant)
            behind = len(reference(messages[:3], tools, opener=False))
            assert out.token_ids == prompt + sampled + full[behind:]


@pytest.mark.parametrize("prompted", [True, False])
def test_parse(prompted: bool, renderer: Any, tokenizer: Any) -> None:
    """The argument text byte for byte."""
    prompt = renderer.render_ids(shapes.OPENING, tools=shapes.TOOLS, add_generation_prompt=True) if prompted else None
    parsed = renderer.parse_response(shapes.encode(tokenizer, CALL), tools=shapes.TOOLS, prompt_ids=prompt)
    (call,) = parsed.tool_calls
    assert (parsed.reasoning_content, parsed.content, parsed.termination) == ("Weighing.", "", Termination.STOP)
    assert (call.name, call["function"]["arguments"], call.status) == ("look", '{"q":  "tea"}', ToolCallStatus.OK)
    parsed = renderer.parse_response(shapes.encode(tokenizer, FINAL), prompt_ids=prompt)
    assert (parsed.reasoning_content, parsed.content, parsed.termination) == ("Weighing.", "four", Termination.STOP)


def test_a_prompt_of_upstreams_own_is_parsed_too(renderer: Any, tokenizer: Any) -> None:
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    prompt += shapes.encode(tokenizer, "<|channel|>analysis<|message|>")
    parsed = renderer.parse_response(shapes.encode(tokenizer, FINAL.split("<|message|>", 1)[1]), prompt_ids=prompt)
    assert (parsed.reasoning_content, parsed.content) == ("Weighing.", "four")


CUT = {
    "in reasoning": "<|channel|>analysis<|message|>Weigh",
    "behind the reasoning": "<|channel|>analysis<|message|>Weighing.<|end|>",
    "in a header": "<|channel|>analysis<|message|>Weighing.<|end|><|start|>assistant<|channel|>fin",
    "in a call": CALL.removesuffix('a"}<|call|>'),
    "at a call's end": CALL.removesuffix("<|call|>"),
}


@pytest.mark.parametrize("where", list(CUT))
def test_what_was_cut_off_where_no_close_can_follow_is_declined(where: str, renderer: Any, tokenizer: Any) -> None:
    prompt = renderer.render_ids(shapes.OPENING, tools=shapes.TOOLS, add_generation_prompt=True)
    out = renderer.try_bridge(prompt, shapes.encode(tokenizer, CUT[where]), [shapes.user("hi")], tools=shapes.TOOLS)
    assert isinstance(out, BridgeDeclined) and "cut off" in out.reason


def test_text_that_was_cut_off_is_closed(renderer: Any, tokenizer: Any) -> None:
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = shapes.encode(tokenizer, "<|channel|>final<|message|>four and")
    out = renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("hi")])
    behind = tokenizer.decode(out.token_ids[len(prompt) + len(sampled) :])
    assert behind == "<|end|><|start|>user<|message|>hi<|end|><|start|>assistant"


def test_a_stop_inside_reasoning_is_declined(renderer: Any, tokenizer: Any) -> None:
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = shapes.encode(tokenizer, "<|channel|>analysis<|message|>Weigh<|return|>")
    assert renderer.bridge_to_next_turn(prompt, sampled, [shapes.user("hi")]) is None
    parsed = renderer.parse_response(sampled, prompt_ids=prompt)
    assert parsed.termination is Termination.MALFORMED and not parsed.reasoning_complete


def test_a_result_of_an_unknown_tool_is_declined(renderer: Any, tokenizer: Any) -> None:
    prompt = renderer.render_ids(shapes.OPENING, tools=shapes.TOOLS, add_generation_prompt=True)
    out = renderer.try_bridge(
        prompt, shapes.encode(tokenizer, FINAL), [{"role": "tool", "content": "five"}], tools=shapes.TOOLS
    )
    assert isinstance(out, BridgeDeclined) and "name" in out.reason


def test_the_vocabulary_comes_from_the_tokenizer_where_no_file_is_at_hand(
    tokenizer: Any, renderer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv(harmony.FOLDER_VARIABLE, str(tmp_path))
    made = resolve(NAME, tokenizer)
    assert made.render_ids(shapes.OPENING) == renderer.render_ids(shapes.OPENING)
    assert os.environ[harmony.FOLDER_VARIABLE] == str(tmp_path)


def test_a_file_at_hand_is_used(tokenizer: Any, renderer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    ranks = harmony.ranks_of(tokenizer)
    assert ranks is not None
    (tmp_path / harmony.FILE).write_bytes(ranks)
    monkeypatch.setenv(harmony.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(harmony, "ranks_of", lambda tokenizer: pytest.fail("there is a file"))
    assert resolve(NAME, tokenizer).render_ids(shapes.OPENING) == renderer.render_ids(shapes.OPENING)


def test_a_missing_vocabulary_says_what_is_missing(tokenizer_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv(harmony.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(TokenizerError) as caught:
        resolve(NAME, tokenizer_of("Qwen/Qwen3-8B"), backend="prime")
    assert "o200k_base.tiktoken" in str(caught.value) and str(tmp_path) in str(caught.value)
    assert harmony.FOLDER_VARIABLE in (caught.value.fix or "")


def test_another_day_writes_the_same_ids(renderer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The date of the preamble belongs to the resolution."""
    expected = renderer.render_ids(shapes.OPENING)
    data = pickle.dumps(renderer)

    class Tomorrow(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return datetime.date(2031, 1, 1)

    monkeypatch.setattr(datetime, "date", Tomorrow)
    assert pickle.loads(data).render_ids(shapes.OPENING) == expected
