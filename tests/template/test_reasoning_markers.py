"""Which markers a format has around reasoning is learned from what its template renders, whatever else the vocabulary has."""

from __future__ import annotations

import chat_templates
import m3_tokenizer
import pytest
import real_tokenizers

from rllm_renderer_core import BridgeDeclined, Termination, ToolCallStatus, resolve

APERTUS = (
    "Apertus-8B-Instruct",
    "danish-foundation-models-croco-munin-apertus-8b-da-simpo-full-50k",
    "swiss-ai-Apertus-8B-Instruct-2509",
)
LLAMA = "meta-llama/Llama-3.2-3B-Instruct"
QUESTION = [{"role": "user", "content": "How many?"}]
MORE = [{"role": "user", "content": "And lids?"}]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def on(tokenizer, *, backend="chat-template", **options):
    return resolve("nobody/knows", tokenizer, backend=backend, **options)


@pytest.fixture(params=APERTUS)
def apertus(request):
    if chat_templates.missing():
        pytest.skip(chat_templates.missing())
    return on(chat_templates.put(request.param))


def ids(renderer, text):
    return renderer.tokenizer.encode(text, add_special_tokens=False)


def parsed(renderer, text, **more):
    return renderer.parse_response(
        ids(renderer, text), prompt_ids=renderer.render_ids(QUESTION, add_generation_prompt=True), **more
    )


def test_apertus_reasoning_is_read_between_the_markers_that_its_template_writes(apertus):
    out = parsed(apertus, "<|inner_prefix|>why<|inner_suffix|>four<|assistant_end|>")
    assert (out.reasoning_content, out.content, out.termination) == ("why", "four", Termination.STOP)


def test_apertus_reasoning_that_is_cut_off_is_no_content_and_isnt_bridged(apertus):
    out = parsed(apertus, "<|inner_prefix|>why")
    assert (out.reasoning_content, out.content, out.reasoning_complete) == ("why", "", False)
    prompt = apertus.render_ids(QUESTION, add_generation_prompt=True)
    bridged = apertus.try_bridge(prompt, ids(apertus, "<|inner_prefix|>why"), MORE)
    assert isinstance(bridged, BridgeDeclined) and "inside reasoning" in bridged.reason


def test_apertus_reasoning_in_the_history_is_shown(apertus):
    answer = {"role": "assistant", "content": "four", "reasoning_content": "why"}
    text = apertus.tokenizer.decode(apertus.render_ids([*QUESTION, answer]))
    assert "<|assistant_start|><|inner_prefix|>why<|inner_suffix|>four" in text


def test_apertus_turns_without_reasoning_are_written_as_they_are_beside_one_with_it(apertus):
    answers = [{"role": "assistant", "content": "four", "reasoning_content": "why"}, {"role": "assistant", "content": "two"}]
    text = apertus.tokenizer.decode(apertus.render_ids([*QUESTION, answers[0], *MORE, answers[1]]))
    assert "four<|assistant_end|><|user_start|>And lids?<|user_end|><|assistant_start|>two" in text


def test_a_template_that_prints_any_content_as_text_is_given_no_blocks():
    why = real_tokenizers.missing(LLAMA)
    if why:
        pytest.skip(why)
    renderer = on(real_tokenizers.load(LLAMA))
    answer = {"role": "assistant", "content": "four"}
    plain, reasoned = (renderer.render_ids([*QUESTION, turn]) for turn in (answer, {**answer, "reasoning_content": "why"}))
    assert plain == reasoned


@pytest.fixture(params=["chat-template", pytest.param("fireworks", marks=pytest.mark.needs("cookbook"))])
def m3(request):
    return on(m3_tokenizer.load(), backend=request.param, renderer={"fireworks": "minimax_m3"}.get(request.param))


def test_minimax_m3_has_think_in_its_vocabulary_and_reasons_in_markers_of_its_own(m3):
    assert "<think>" in m3.tokenizer.get_added_vocab()
    out = parsed(m3, "<mm:think>why</mm:think>four[e~[")
    assert (out.reasoning_content, out.content, out.termination) == ("why", "four", Termination.STOP)
    prompt = m3.render_ids(QUESTION, add_generation_prompt=True)
    bridged = m3.try_bridge(prompt, ids(m3, "<mm:think>let me[e~["), MORE)
    assert isinstance(bridged, BridgeDeclined) and "inside reasoning" in bridged.reason


CALL = ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="look">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>'


def test_a_call_inside_a_second_block_of_reasoning_is_not_ok(m3):
    assert [call.status for call in parsed(m3, f"<mm:think>why</mm:think>{CALL}[e~[", tools=[LOOK]).tool_calls] == [
        ToolCallStatus.OK
    ]
    out = parsed(m3, f"<mm:think>why</mm:think>So: <mm:think>perhaps {CALL}</mm:think>no[e~[", tools=[LOOK])
    assert [call.status for call in out.tool_calls] == [ToolCallStatus.MALFORMED_STRUCTURE]
    assert out.termination is Termination.MALFORMED


@pytest.mark.parametrize("name", ["BAAI-BGE-VL-MLLM-S1", "BAAI-BGE-VL-v1.5-mmeb"])
def test_where_no_bridge_could_be_learned_the_decline_says_what_couldnt(name):
    if chat_templates.missing():
        pytest.skip(chat_templates.missing())
    renderer = on(chat_templates.put(name), template_bridge=True)
    prompt = renderer.render_ids(QUESTION, add_generation_prompt=True)
    declined = renderer.try_bridge(prompt, [*ids(renderer, "four"), renderer.tokenizer.eos_token_id], MORE)
    assert isinstance(declined, BridgeDeclined)
    assert declined.reason == "how the new messages are rendered depends on more of the history than its last close"
    off = on(renderer.tokenizer, template_bridge=False)
    declined = off.try_bridge(prompt, [*ids(renderer, "four"), renderer.tokenizer.eos_token_id], MORE)
    assert isinstance(declined, BridgeDeclined) and declined.reason.startswith("template_bridge=False declines every bridge")
