"""DeepSeek-V4 with the real cookbook: no chat template, results in the order of their calls, thinking or not, tools or not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("rllm_renderer_fireworks")

import fireworks_oracle as oracle
import shapes
from rllm_renderer_training import Rollout

import rllm_renderer_core as core

MODEL = "deepseek-ai/DeepSeek-V4-Flash"
pytestmark = pytest.mark.needs("cookbook")


@pytest.fixture(scope="module")
def tokenizer():
    loaded = oracle.tokenizer(MODEL)
    assert not loaded.chat_template
    return loaded


@pytest.fixture(params=[None, False], ids=["thinking", "thinking disabled"])
def thinking(request):
    return request.param


@pytest.fixture(params=[None, shapes.TOOLS], ids=["no tools", "tools"])
def tools(request):
    return request.param


@pytest.fixture
def renderer(tokenizer, thinking):
    return core.resolve(MODEL, tokenizer, backend="fireworks", thinking=thinking)


@pytest.fixture
def official(tokenizer, thinking):
    mode = "thinking" if thinking is None else "chat"

    def ids(messages, tools=None):
        return shapes.encode(tokenizer, oracle._encoded(mode, messages, tools, messages[-1]["role"] != "assistant"))

    return ids


@pytest.fixture
def continued(official, tokenizer):
    """P + C and what the encoder puts behind the turn's end. The encoder itself drops old reasoning, which a bridge keeps."""

    def ids(prompt, completion, messages, tools):
        full = official(messages, tools)
        end = len(full) - full[::-1].index(tokenizer.eos_token_id)
        return prompt + completion + full[end:]

    return ids


def sampled(official, messages, turn, tools):
    """The ids of a turn behind a prompt, its stop included."""
    prompt = official(messages, tools)
    through = official([*messages, turn], tools)
    assert through[: len(prompt)] == prompt
    return prompt, through[len(prompt) :]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "in reverse"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "by id"])
def test_results_go_in_the_order_of_their_calls(renderer, official, continued, tools, order, named):
    prompt, completion = sampled(official, shapes.OPENING, shapes.TWO_CALLS, tools)
    results = [(shapes.A, shapes.B)[at] for at in order]
    new = results if named else [{key: value for key, value in each.items() if key != "name"} for each in results]
    expected = continued(prompt, completion, [*shapes.OPENING, shapes.TWO_CALLS, *results], tools)
    got = renderer.try_bridge(prompt, completion, new, tools=tools, previous_message=shapes.TWO_CALLS)
    assert got.token_ids == expected
    unpaired = renderer.try_bridge(prompt, completion, new, tools=tools)
    if named:
        assert unpaired.token_ids == expected
    else:
        assert "orders results by call" in unpaired.reason


def test_two_calls_of_one_function_need_previous_message(renderer, official, continued, tools):
    turn = {**shapes.TWO_CALLS, "tool_calls": [shapes.call("look", "a", "plums"), shapes.call("look", "b")]}
    results = [shapes.result("look", "b", "seven"), shapes.result("look", "a", "five")]
    prompt, completion = sampled(official, shapes.OPENING, turn, tools)
    assert isinstance(renderer.try_bridge(prompt, completion, results, tools=tools), core.BridgeDeclined)
    got = renderer.try_bridge(prompt, completion, results, tools=tools, previous_message=turn)
    assert got.token_ids == continued(prompt, completion, [*shapes.OPENING, turn, *results], tools)


def test_one_of_two_results(renderer, official, continued, tools):
    """Results that come one at a time continue as the encoder would: those that are there, in order."""
    prompt, completion = sampled(official, shapes.OPENING, shapes.TWO_CALLS, tools)
    got = renderer.try_bridge(prompt, completion, [shapes.B], tools=tools, previous_message=shapes.TWO_CALLS)
    assert got.token_ids == continued(prompt, completion, [*shapes.OPENING, shapes.TWO_CALLS, shapes.B], tools)


def test_a_user_turn_after_thinking(renderer, official, tools, thinking):
    """Without tools the encoder drops old reasoning, and so does render; the bridge keeps what was sampled."""
    turn = {"role": "assistant", "content": "Four.", "reasoning_content": "Two and two."}
    new = shapes.user("Sure?")
    prompt, completion = sampled(official, shapes.OPENING, turn, tools)
    got = renderer.try_bridge(prompt, completion, [new], tools=tools)
    full = official([*shapes.OPENING, turn, new], tools)
    assert renderer.render_ids([*shapes.OPENING, turn, new], tools=tools, add_generation_prompt=True) == full
    assert got.token_ids[: len(prompt) + len(completion)] == prompt + completion
    tail = got.token_ids[len(prompt) + len(completion) :]
    assert full[-len(tail) :] == tail
    assert (got.token_ids == full) == (thinking is False or tools is not None)


def test_a_system_message_among_the_new_ones_shows(renderer, official, continued, tools):
    prompt, completion = sampled(official, shapes.OPENING, shapes.TEXT, tools)
    new = [{"role": "system", "content": "Be kind."}, shapes.user("And lids?")]
    got = renderer.try_bridge(prompt, completion, new, tools=tools)
    assert got.token_ids == continued(prompt, completion, [*shapes.OPENING, shapes.TEXT, *new], tools)


def test_a_rollout_declines_nothing(renderer, official, continued, tools):
    rollout = Rollout(renderer)
    prompt = rollout.begin(shapes.OPENING, tools=tools)
    _, completion = sampled(official, shapes.OPENING, shapes.TWO_CALLS, tools)
    parsed = rollout.record(completion)
    first, second = (call.id for call in parsed.tool_calls)
    extended = rollout.extend(
        [
            {"role": "tool", "tool_call_id": second, "content": "seven"},
            {"role": "tool", "tool_call_id": first, "content": "five"},
        ]
    )
    assert rollout.declines == []
    assert extended == continued(prompt, completion, [*shapes.OPENING, shapes.TWO_CALLS, shapes.A, shapes.B], tools)
    assert extended[: len(prompt)] == prompt


def test_attribution_covers_results_that_share_a_turn(renderer, tools):
    conversation = [*shapes.OPENING, shapes.TWO_CALLS, shapes.A, shapes.B]
    out = renderer.render(conversation, tools=tools)
    ids = renderer.render_ids(conversation, tools=tools)
    assert out.token_ids == ids
    assert {0, 1, 2} <= set(out.message_indices)
    results = [at for at, index in enumerate(out.message_indices) if index is None]
    assert results and not any(out.sampled_mask[at] for at in results)
    assert any(mask for mask, index in zip(out.sampled_mask, out.message_indices, strict=True) if index == 2)


def test_parsing_reads_reasoning_and_calls(renderer, official, tools, thinking):
    turn = {**shapes.TWO_CALLS, "reasoning_content": "I look."} if thinking is None else shapes.TWO_CALLS
    prompt, completion = sampled(official, shapes.OPENING, turn, tools)
    parsed = renderer.parse_response(completion, tools=tools, prompt_ids=prompt)
    assert [(call.name, call.arguments) for call in parsed.tool_calls] == [
        ("look", {"q": "plums"}),
        ("count", {"q": shapes.CALL_WORDS}),
    ]
    assert parsed.reasoning_content == ("I look." if thinking is None else None)
    assert parsed.content == ""
    assert parsed.termination is core.Termination.STOP


def test_the_command_line_renders_without_a_chat_template(tmp_path, tokenizer):
    """From a folder, which has no chat template either."""
    pytest.importorskip("click")
    pytest.importorskip("rich")
    tokenizer.save_pretrained(tmp_path)
    command = [sys.executable, "-W", "ignore", "-m", "rllm_renderer_cli", "render", "--model", MODEL]
    command += ["--tokenizer", str(tmp_path), "--generation-prompt", "--ids"]
    done = subprocess.run(command, input=json.dumps(shapes.OPENING), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = shapes.encode(tokenizer, oracle._encoded("thinking", shapes.OPENING, None, True))
    assert [int(each) for each in done.stdout.split()] == expected
