"""The learned parser on real tokenizers: what it claims, what it flags, and that it never guesses."""

from __future__ import annotations

import copy
import datetime
import json
import re

import pytest
import real_tokenizers
from rllm_renderer_template import LearnedParser, learned_parser

from rllm_renderer_core import NoBackendError, Termination, ToolCallStatus, explain, resolve
from rllm_renderer_core.errors import TokenIdError

QWEN, CODER, LLAMA, M3 = "Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "meta-llama/Llama-3.1-8B-Instruct", "MiniMaxAI/MiniMax-M3"
GEMMA3, GEMMA4, GPT = "google/gemma-3-4b-it", "google/gemma-4-E2B-it", "openai/gpt-oss-20b"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "number"}}},
        },
    }
    for name in ("look", "rm")
]
CALL = '<tool_call>\n{"name": "look", "arguments": {"q": "tea"}}\n</tool_call>'


def tokenizer(model):
    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    return real_tokenizers.load(model)


def renderer(model, **options):
    return resolve(model, tokenizer(model), backend="chat-template", **options)


def parsed(model, text, prompt=None, tools=TOOLS):
    one = renderer(model)
    ids = one.tokenizer.encode(text, add_special_tokens=False)
    prompt_ids = one.tokenizer.encode(prompt, add_special_tokens=False) if prompt else None
    return one.parse_response(ids, tools=tools, prompt_ids=prompt_ids)


def test_what_is_learned_of_qwen():
    parser = renderer(QWEN).upstream.parser
    assert parser.parses_tool_calls and parser.why_no_tool_calls is None and parser.why_no_text is None
    assert parser.reasoning == "proven"
    assert parser.delimiters["before calls"].strip() == "<tool_call>"
    tags = parser.delimiters["reasoning opens"], parser.delimiters["reasoning closes"]
    ids = tuple(tokenizer(QWEN).convert_tokens_to_ids(tag.strip()) for tag in tags)
    assert parser.reasoning_ids == ids
    assert str(parser.proofs) in str(parser)


@pytest.mark.parametrize(("model", "opening"), [(M3, "<mm:think>"), (GEMMA4, "<|channel>")], ids=["MiniMax-M3", "Gemma 4"])
def test_reasoning_markers_come_from_the_template_not_from_the_vocabulary(model, opening):
    parser = renderer(model).upstream.parser
    assert parser.delimiters["reasoning opens"].startswith(opening)
    # One id opens it, or the core parses completions to know whether they end inside reasoning.
    assert parser.reasoning_ids is None or parser.reasoning_ids[0] == tokenizer(model).convert_tokens_to_ids(opening)


def test_the_label_of_reasoning_is_not_reasoning():
    out = parsed(GEMMA4, "<|channel>thought\nwhy\n<channel|>four<turn|>")
    assert (out.reasoning_content, out.content) == ("why", "four")


def test_a_decode_cleans_up_no_spaces():
    llama = tokenizer(LLAMA)
    kept, llama.clean_up_tokenization_spaces = llama.clean_up_tokenization_spaces, True
    try:
        out = parsed(LLAMA, "x != y , z<|eot_id|>")
    finally:
        llama.clean_up_tokenization_spaces = kept
    assert out.content == "x != y , z"


def test_a_prompt_that_closed_the_reasoning_is_followed_by_content():
    out = parsed(QWEN, "four<|im_end|>", "<|im_start|>user\nping<|im_end|>\n<|im_start|>assistant\n<think>\nshort</think>")
    assert (out.content, out.reasoning_content, out.termination) == ("four", None, Termination.STOP)


def test_a_prompt_that_ends_inside_a_begun_reasoning_goes_on_with_it():
    prompt = "<|im_start|>user\nping<|im_end|>\n<|im_start|>assistant\n<think>\nOkay, so"
    out = parsed(QWEN, " it is four.\n</think>\n\nfour<|im_end|>", prompt)
    assert (out.content, out.reasoning_content.strip()) == ("four", "it is four.")


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        pytest.param("<|im_start|>assistant\n<think>\nOkay, so", True, id="no turn before"),
        pytest.param("<|im_start|>user\nping<|endoftext|>\n<|im_start|>assistant\n<think>\nOkay", True, id="another close"),
        pytest.param("<think>\nOkay, so", True, id="no opener of a turn"),
        pytest.param("<|im_start|>assistant\n<think>\nOkay" + ", so" * 5000, True, id="a long one"),
        pytest.param("<|im_start|>assistant\n<think>\nOkay" + ", so" * 5000 + "</think>", False, id="a long one, closed"),
        pytest.param("<|im_start|>user\nwhat is <think>?<|im_end|>\n<|im_start|>assistant\n", False, id="a user's text"),
        pytest.param("<|im_start|>user\nwhat is <think>?<|im_end|>\nassistant: ", False, id="a user's text, no opener"),
    ],
)
def test_where_a_prompt_ends_inside_reasoning(prompt, inside):
    out = parsed(QWEN, "it is four.<|im_end|>", prompt)
    assert (out.reasoning_content, out.content) == (("it is four.", "") if inside else (None, "it is four."))
    assert out.reasoning_complete is not inside


def test_a_call_sketched_in_reasoning_stays_there():
    out = parsed(QWEN, f"<think>\nSay {CALL}?\n</think>\n\n{CALL}<|im_end|>")
    assert [call.name for call in out.runnable] == ["look"] and len(out.tool_calls) == 1
    assert "look" in out.reasoning_content


def test_a_marker_that_is_spelled_is_text():
    qwen = tokenizer(QWEN)
    spelled = [token for piece in ("<tool", "_call>", "\n{}\n</tool", "_call>") for token in qwen.encode(piece)]
    out = renderer(QWEN).parse_response([*spelled, qwen.eos_token_id], tools=TOOLS)
    assert out.content == "<tool_call>\n{}\n</tool_call>" and not out.tool_calls


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('<tool_call>\n{"name": "look", "arguments": {"q": "tea"}\n</tool_call>', ToolCallStatus.INVALID_JSON),
        ('<tool_call>\n{"name": "look", "arguments": {"n": 1e400}}\n</tool_call>', ToolCallStatus.INVALID_ARGUMENT),
        ('<tool_call>\n{"name": "look", "arguments": {"q": "a", "q": "b"}}\n</tool_call>', ToolCallStatus.MALFORMED_STRUCTURE),
        ('<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>', ToolCallStatus.MISSING_NAME),
        ('<tool_call>\n{"name": "fly", "arguments": {}}\n</tool_call>', ToolCallStatus.UNKNOWN_TOOL),
        ('<tool_call>\n{"arguments": {}}\n</tool_call>', ToolCallStatus.MISSING_NAME),
        ('<tool_call>\n{"name": "look", "arguments": {"q": "tea"}}\n', ToolCallStatus.UNCLOSED_BLOCK),
    ],
)
def test_what_is_broken_is_flagged_and_shown(text, status):
    (call,) = parsed(QWEN, text + "<|im_end|>").tool_calls
    assert call.status is status and call.raw.strip() == text.strip()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("tea\n<parameter=n>\n3", id="a parameter without its close"),
        pytest.param("a\n</parameter> b", id="a closing tag in a value"),
        pytest.param("a\n</parameter>\n<parameter=q>\nb", id="one parameter twice"),
    ],
)
def test_a_parameter_that_can_not_be_told_is_never_ok(value):
    text = f"<tool_call>\n<function=look>\n<parameter=q>\n{value}\n</parameter>\n</function>\n</tool_call><|im_end|>"
    out = parsed(CODER, "</think>\n\n" + text, "<|im_start|>assistant\n<think>\n")
    assert out.tool_calls and not out.runnable


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("1e400", None, id="a number that JSON can't hold"),
        pytest.param("soon", None, id="a number that isn't one"),
        pytest.param("2.5", 2.5, id="a number"),
        pytest.param("9" * 4400, None, id="an integer of 4,400 digits"),
    ],
)
def test_parameters_are_typed_by_the_declared_tool(written, value):
    text = f"<tool_call>\n<function=look>\n<parameter=n>\n{written}\n</parameter>\n</function>\n</tool_call><|im_end|>"
    (call,) = parsed(CODER, "</think>\n\n" + text, "<|im_start|>assistant\n<think>\n").tool_calls
    if value is None:
        assert call.status is ToolCallStatus.INVALID_ARGUMENT and call.arguments == {"n": written}
    else:
        assert call.status is ToolCallStatus.OK and call.arguments == {"n": value}


def test_complete_calls_before_a_truncated_one_stay():
    out = parsed(QWEN, f'{CALL}\n<tool_call>\n{{"name": "rm", "argu')
    assert [call.name for call in out.runnable] == ["look"]
    assert out.termination is Termination.TRUNCATED and out.tool_calls[1].status is not ToolCallStatus.OK


def test_bare_json_is_a_call_only_of_a_declared_tool_and_alone():
    text = '{"name": "look", "parameters": {"q": "tea"}}'
    assert [call.arguments for call in parsed(LLAMA, f"{text}<|eot_id|>").runnable] == [{"q": "tea"}]
    for completion, tools in ((text, None), (text.replace("look", "fly"), TOOLS), (f"As in {text}", TOOLS)):
        out = parsed(LLAMA, f"{completion}<|eot_id|>", tools=tools)
        assert out.content == completion and not out.tool_calls


def test_arguments_of_json_stay_as_they_were_written():
    text = '<tool_call>\n{"name": "look", "arguments": {"n": 1.0,  "q": "é"}}\n</tool_call><|im_end|>'
    (call,) = parsed(QWEN, text).runnable
    assert call["function"]["arguments"] == '{"n": 1.0,  "q": "é"}'


def test_a_format_without_calls_says_so_where_tools_are_required():
    gemma = tokenizer(GEMMA3)
    with pytest.raises(NoBackendError, match=r"require_tools.*parses no tool calls") as caught:
        resolve(GEMMA3, gemma, backend="chat-template", require_tools=True)
    assert caught.value.fix
    assert not renderer(GEMMA3).parses_tool_calls
    assert renderer(QWEN, require_tools=True).parses_tool_calls


def test_explain_says_what_is_learned():
    (verdict,) = (each for each in explain(QWEN, tokenizer(QWEN)).verdicts if each.backend == "chat-template")
    assert "tool calls: one JSON object a call" in verdict.reason and "round trips" in verdict.reason


def test_any_renderer_can_be_learned_from():
    one = renderer(QWEN)

    def render(messages, *, tools=None, add_generation_prompt=False):
        return one.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    qwen = one.tokenizer
    parser = LearnedParser(render, lambda ids: qwen.decode(ids), [qwen.eos_token_id], qwen.added_tokens_decoder)
    out = parser.parse_response(qwen.encode(f"So.\n{CALL}<|im_end|>"), tools=TOOLS)
    assert parser.parses_tool_calls and out.content == "So." and out.runnable[0].arguments == {"q": "tea"}


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (
            lambda ids: {"input_ids": ids, "attention_mask": [1] * len(ids)},
            r"are a dict, not a list fix: pass its \['input_ids'\]",
        ),
        (lambda ids: [ids], "are nested: entry 0 is a list"),
        (lambda ids: None, "are NoneType, not a list"),
        (lambda ids: "text", "are str: text, not ids"),
    ],
    ids=["a mapping, as transformers 5 returns", "a batch of one", "nothing", "text"],
)
def test_what_a_render_returns_must_be_ids(returned, why):
    one = renderer(QWEN)
    parser = LearnedParser.of(lambda messages, **more: returned(one.render_ids(messages, **more)), one.tokenizer, [0])
    assert re.search(why, parser.why_no_text), parser.why_no_text
    assert parser.parse_response(one.tokenizer.encode("four")).content == "four"


def test_stop_ids_must_be_ids():
    one = renderer(QWEN)
    for stops in (None, one.tokenizer.eos_token_id, ["<|im_end|>"]):
        with pytest.raises(TokenIdError, match="stop_ids"):
            LearnedParser.of(one.render_ids, one.tokenizer, stops)
    assert LearnedParser.of(one.render_ids, one.tokenizer, {one.tokenizer.eos_token_id}).parses_tool_calls


def test_a_renderer_that_refuses_everything_is_not_guessed_at():
    def render(messages, *, tools=None, add_generation_prompt=False):
        raise ValueError("no")

    parser = LearnedParser(render, lambda ids: "".join(map(chr, ids)), [0], [0, 1])
    out = parser.parse_response([*b"<think>a</think>b", 0])
    assert (out.content, out.termination) == ("<think>a</think>b", Termination.STOP)
    assert not parser.parses_tool_calls and "no" in parser.why_no_text == parser.why_no_tool_calls
    assert json.dumps(parser.delimiters) == "{}"


def test_a_parser_is_kept_for_what_it_was_learned_from_and_nothing_else():
    qwen = copy.deepcopy(tokenizer(QWEN))
    stops, day = [qwen.eos_token_id], datetime.date(2026, 1, 2)
    first = learned_parser(qwen, {}, stops)
    assert learned_parser(qwen, {}, stops) is first
    days = (day, day.replace(year=2026), day.replace(day=3))
    dated = [learned_parser(qwen, {"strftime_now": day.strftime}, stops) for day in days]
    assert dated[0] is dated[1] and dated[1] is not dated[2]
    qwen.add_tokens(["<|later|>"], special_tokens=True)
    later = learned_parser(qwen, {}, stops)
    assert later is not first
    qwen.bos_token = "<|later|>"
    assert learned_parser(qwen, {}, stops) not in (first, later)


def test_spaces_in_front_of_punctuation_are_kept_where_the_tokenizer_would_clean_them_up():
    llama = copy.deepcopy(tokenizer(LLAMA))
    llama.clean_up_tokenization_spaces = True
    stop = llama.convert_tokens_to_ids("<|eot_id|>")
    text = "if x != y , z :"
    ids = [*llama.encode(text, add_special_tokens=False), stop]
    assert learned_parser(llama, {}, [stop]).parse_response(ids).content == text
