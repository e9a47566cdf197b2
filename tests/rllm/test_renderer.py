"""What rLLM's code calls of a renderer: texts, errors as a server answers them, settings that only some models have."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import real_tokenizers
import rllm_renderer_rllm as rllm
from rllm_renderer_rllm.http_errors import with_rllm_names
from rllm_renderer_training import UnreachableTurnError

from rllm_renderer_core import (
    BridgeDeclined,
    ContractError,
    MessageError,
    NoBackendError,
    RenderError,
    ToolError,
    UnsupportedContentError,
)
from rllm_renderer_core.normal_form.tokenizer import lock_of

MODEL = "Qwen/Qwen3-8B"
ASKED = [{"role": "user", "content": "How many lids?"}]


@pytest.fixture(scope="module")
def renderer():
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    return rllm.resolve(MODEL, real_tokenizers.load(MODEL), disable_thinking=True, reasoning_effort="high").renderer


def test_a_setting_without_a_mode_is_logged_and_the_other_is_kept(caplog):
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    caplog.set_level(logging.INFO, logger="rllm_renderer")
    found = rllm.resolve(MODEL, real_tokenizers.load(MODEL), disable_thinking=True, reasoning_effort="high")
    assert found.resolution.options == {"thinking": False}
    assert any("reasoning_effort" in record.getMessage() for record in caplog.records)


def test_texts_are_the_renderers_ids(renderer):
    parser, encode = renderer.chat_parser, renderer.tokenizer.encode
    text = parser.parse(ASKED, add_generation_prompt=True, is_first_msg=True, tools=[], accumulate_reasoning=False)
    assert encode(text, add_special_tokens=False) == renderer.render_ids(ASKED, add_generation_prompt=True)
    assert text.endswith(parser.generation_prompt)
    answer = {"role": "assistant", "content": "Two."}
    assert parser.parse([answer]) == parser.generation_prompt + "Two.<|im_end|>"
    with pytest.raises(RenderError, match="whole conversation"):
        parser.parse(ASKED)


@pytest.mark.parametrize(
    ("model", "with_reasoning", "without"),
    [
        ("Qwen/Qwen3.5-9B", "Two and two.\n</think>\n\n4<|im_end|>", "\n</think>\n\n4<|im_end|>"),
        ("moonshotai/Kimi-K2.6", None, "</think>4<|im_end|>"),
    ],
)
def test_a_turn_alone_is_what_the_model_says(model, with_reasoning, without):
    """As distillation asks for it. Kimi's template leaves out the reasoning of an answer that ends a conversation."""
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    parser = rllm.get_renderer(model, real_tokenizers.load(model), parity="off").chat_parser

    def turn(**message):
        said = [{"role": "assistant", "content": "4", "tool_calls": [], **message}]
        text = parser.parse(said, is_first_msg=False, add_generation_prompt=False, tools=[], accumulate_reasoning=True)
        return text.removeprefix(parser.generation_prompt)

    assert turn(reasoning="") == turn(trainable=False) == without
    if with_reasoning is None:
        with pytest.raises(UnreachableTurnError, match="leaves out its reasoning"):
            turn(reasoning="Two and two.")
    else:
        assert turn(reasoning="Two and two.") == with_reasoning


def test_a_text_that_isnt_the_ids_is_refused(renderer):
    class Other:
        def __init__(self, inner):
            self.decode, self.encode = inner.decode, lambda text, **_: [0]

    parser = rllm.ChatParser(renderer)
    parser.tokenizer = Other(renderer.tokenizer)
    with pytest.raises(RenderError, match="token_input"):
        parser.parse(ASKED, is_first_msg=True)


def test_completions_as_model_outputs_have_them(renderer):
    ids = renderer.tokenizer.encode('<tool_call>\n{"name": "look", "arguments": {"q": 1}}\n</tool_call><|im_end|>')
    output = renderer.parse_completion(ids)
    assert output == rllm.EngineOutput("", "", [{"name": "look", "arguments": {"q": 1}}])


def test_bridges_of_a_copy_dont_wait_for_renders(renderer):
    prompt = renderer.token_input(ASKED)
    sampled = renderer.tokenizer.encode("Two.<|im_end|>")
    wanted = renderer.bridge_to_next_turn(prompt, sampled, ASKED).token_ids
    copy = renderer.copy()
    assert (copy.resolution, copy.stop_sequences) == (renderer.resolution, renderer.stop_sequences)
    with ThreadPoolExecutor(1) as pool, lock_of(renderer.tokenizer):  # as a render holds it
        assert pool.submit(copy.bridge_to_next_turn, prompt, sampled, ASKED).result(timeout=60).token_ids == wanted


def test_a_trainer_gets_what_the_model_samples_and_no_refused_tools(renderer):
    with pytest.warns(UserWarning, match="web_search"):
        (example,) = renderer.supervised([*ASKED, {"role": "assistant", "content": "Two."}], tools=[{"type": "web_search"}])
    trained = [token for token, weight in zip(example.token_ids, example.weights, strict=True) if weight]
    assert renderer.tokenizer.decode(trained).endswith("Two.<|im_end|>")
    assert example.token_ids[: -len(trained)] == renderer.token_input(ASKED)


def test_what_was_served_before_still_is(renderer):
    tools = [{"type": "web_search"}, {"type": "function", "function": {"name": "look"}}]
    with pytest.warns(UserWarning, match="web_search"):
        assert renderer.token_input(ASKED, tools) == renderer.token_input(ASKED, tools[1:])
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    plain = {"role": "assistant", "content": "No."}
    assert renderer.token_input([*ASKED, refused, *ASKED]) == renderer.token_input([*ASKED, plain, *ASKED])


@pytest.mark.parametrize(
    ("error", "status", "param"),
    [
        (UnsupportedContentError("an image", index=1), 400, "messages[1]"),
        (MessageError("no role"), 400, "messages"),
        (ToolError("no name", index=0), 400, "tools[0]"),
        (RenderError("refused"), 400, "messages"),
        (ContractError("broken"), 500, None),
    ],
)
def test_errors_as_an_openai_server_says_them(error, status, param):
    assert rllm.http_status(error) == status
    body = rllm.openai_error(error)["error"]
    assert (body["param"], body["code"]) == (param, type(error).__name__)
    assert body["message"] == str(error)


def test_errors_about_the_choice_name_rllms_flags():
    error = NoBackendError("no backend covers 'x'", fix="renderer=", explanation="table")
    out = with_rllm_names(error)
    assert type(out) is NoBackendError and out.explanation == "table" and out.fix == "renderer="
    assert "--renderer-family" in str(out) and str(out).startswith("no backend covers 'x'")
    assert with_rllm_names(BridgeDeclined("why")).reason == "why"
