"""Completions to messages: text, reasoning, calls and how they ended."""

import json

import pytest
import shapes
import tinker_oracle as oracle
from tinker_turns import CALLS, FOUR, Turn, closes_calls, has_call, opens_reasoning

from rllm_renderer_core import Termination, ToolCallStatus

STOP, TRUNCATED, MALFORMED = Termination.STOP, Termination.TRUNCATED, Termination.MALFORMED


@pytest.fixture
def turn(case, resolved):
    return Turn(case, resolved)


def parse(turn, ids, tools=None):
    return turn.resolved.parse_response(ids, tools=tools, prompt_ids=turn.prompt)


def test_text_and_its_end(turn):
    text = [*turn.start, *turn.ids(FOUR)]
    for stop in turn.stops:
        if turn.case.renderer.startswith("gpt_oss") and turn.tokenizer.decode([stop]) == "<|call|>":
            continue
        out = parse(turn, [*text, stop])
        assert (out.content, out.tool_calls, out.termination, out.reasoning_complete) == (FOUR, [], STOP, True)
        assert parse(turn, [*text, stop, stop]).termination is MALFORMED
        assert parse(turn, [*text, stop, *turn.ids("more")]).termination is MALFORMED
    out = parse(turn, text)
    assert (out.content, out.termination) == (FOUR, TRUNCATED)


@pytest.mark.cases(that=opens_reasoning)
def test_reasoning_that_the_prompt_opened(turn):
    out = parse(turn, turn.ids("Weighing both, the first"))
    assert (out.reasoning_content, out.content) == ("Weighing both, the first", "")
    assert (out.termination, out.reasoning_complete) == (TRUNCATED, False)
    out = parse(turn, [*turn.ids("Weighing"), *turn.start, *turn.ids("four"), turn.stop])
    assert (out.reasoning_content, out.content, out.termination) == ("Weighing", "four", STOP)
    out = parse(turn, [*turn.ids("Weighing"), turn.stop])
    assert (out.reasoning_content, out.content, out.termination, out.reasoning_complete) == ("Weighing", "", MALFORMED, False)


def test_reasoning_that_the_model_opened(renderer_of):
    case = oracle.CASES[0]
    turn = Turn(case, renderer_of(case.renderer, case.model))
    out = parse(turn, [*turn.ids("<think>\nWeighing\n</think>\n\nfour"), turn.stops[0]])
    assert (out.reasoning_content, out.content, out.termination) == ("Weighing", "four", STOP)
    out = parse(turn, turn.ids("<think>\nWeighing"))
    assert (out.reasoning_content, out.content, out.reasoning_complete) == ("Weighing", "", False)
    out = parse(turn, [*turn.ids("<think>\n\n</think>\n\nfour"), turn.stops[0]])
    assert (out.reasoning_content, out.content) == (None, "four")


def test_harmony_channels(renderer_of):
    case = next(case for case in oracle.CASES if case.renderer == "gpt_oss_medium_reasoning")
    turn = Turn(case, renderer_of(case.renderer, case.model))
    end, call = turn.ids("<|return|>"), turn.ids("<|call|>")
    analysis = "<|channel|>analysis<|message|>Weighing"
    out = parse(turn, turn.ids(analysis))
    assert (out.reasoning_content, out.content, out.termination, out.reasoning_complete) == ("Weighing", "", TRUNCATED, False)
    out = parse(turn, turn.ids(analysis) + end)
    assert (out.reasoning_content, out.termination, out.reasoning_complete) == ("Weighing", MALFORMED, False)
    out = parse(turn, turn.ids(f"{analysis}<|end|><|start|>assistant<|channel|>final<|message|>four") + end)
    assert (out.reasoning_content, out.content, out.termination) == ("Weighing", "four", STOP)
    out = parse(turn, turn.ids("<|channel|>final<|message|>") + end)
    assert (out.content, out.reasoning_content, out.termination) == ("", None, STOP)
    text = f"{analysis}<|end|><|start|>assistant" + CALLS[case.renderer]
    out = parse(turn, turn.ids(text) + call)
    assert [(c.name, c.arguments) for c in out.tool_calls] == [("look", {"q": "tea"})]
    assert (out.reasoning_content, out.content, out.termination) == ("Weighing", "", STOP)


def with_call(turn, text):
    stop = turn.stops[-1] if turn.case.renderer.startswith("gpt_oss") else turn.stops[0]
    start = [] if turn.case.renderer.startswith("gpt") else turn.start
    return [*start, *turn.ids(text), stop]


@pytest.mark.cases(that=has_call)
def test_a_call(turn):
    text = CALLS[turn.case.renderer]
    for tools in (None, shapes.TOOLS):
        out = parse(turn, with_call(turn, text), tools)
        (call,) = out.tool_calls
        assert (call.name, call.arguments, call.status) == ("look", {"q": "tea"}, ToolCallStatus.OK)
        assert call.raw and call.raw in text and call.id
        assert (out.content, out.termination) == ("", STOP)


@pytest.mark.cases(that=closes_calls)
def test_a_call_that_is_cut_off(turn):
    text = CALLS[turn.case.renderer]
    cut = text[: text.index("tea")]
    ids = with_call(turn, cut)
    for sampled, termination in ((ids[:-1], TRUNCATED), (ids, MALFORMED)):
        out = parse(turn, sampled)
        assert [call.status for call in out.tool_calls] == [ToolCallStatus.UNCLOSED_BLOCK]
        assert out.tool_calls[0].raw in cut and "look" in out.tool_calls[0].raw
        assert (out.content, out.termination) == ("", termination)


@pytest.mark.cases(that=has_call)
def test_an_unknown_tool_is_said_to_be_one(turn):
    text = CALLS[turn.case.renderer]
    tools = [each for each in shapes.TOOLS if each["function"]["name"] != "look"]
    (call,) = parse(turn, with_call(turn, text), tools).tool_calls
    assert (call.name, call.status) == ("look", ToolCallStatus.UNKNOWN_TOOL)


QWEN = ("qwen3", "Qwen/Qwen3-8B")
QWEN_5 = ("qwen3_5", "Qwen/Qwen3.5-9B")


def qwen(renderer_of, which=QWEN):
    case = next(case for case in oracle.CASES if (case.renderer, case.model) == which)
    return Turn(case, renderer_of(*which))


def test_attempts_keep_their_order_the_broken_ones_too(renderer_of):
    turn = qwen(renderer_of)
    good = CALLS["qwen3"]
    broken = '<tool_call>\n{"name": "look", "arguments": {"q": }\n</tool_call>'
    nameless = '<tool_call>\n{"arguments": {"q": "tea"}}\n</tool_call>'
    out = parse(turn, with_call(turn, f"I look.\n{broken}\n{good}\n{nameless}\n{good}"))
    assert [call.status for call in out.tool_calls] == [
        ToolCallStatus.INVALID_JSON, ToolCallStatus.OK, ToolCallStatus.MISSING_NAME, ToolCallStatus.OK,
    ]  # fmt: skip
    assert [call.raw.strip() for call in out.tool_calls] == [broken, good, nameless, good]
    assert (out.content, out.termination) == ("I look.", MALFORMED)


def test_a_sketch_inside_reasoning_is_no_call(renderer_of):
    for which in (QWEN, QWEN_5):
        turn = qwen(renderer_of, which)
        call = CALLS[which[0]]
        opening = "" if turn.start else "<think>\n"
        out = parse(turn, with_call_only(turn, f"{opening}First {call} or not\n</think>\n\n{call}"))
        assert len(out.tool_calls) == 1 and call in out.reasoning_content


def with_call_only(turn, text):
    return [*turn.ids(text), turn.stops[0]]


def test_argument_text_stays_as_the_model_wrote_it(renderer_of):
    turn = qwen(renderer_of)
    written = '{"b":1,"a":[true,null],"ü": "é"}'
    (call,) = parse(turn, with_call(turn, f'<tool_call>\n{{"name": "look", "arguments": {written}}}\n</tool_call>')).tool_calls
    assert call["function"]["arguments"] == written


TYPED = [
    ("string", "[1, 2]", "[1, 2]", "ok"), ("string", "0042", "0042", "ok"), ("string", " two\n", " two\n", "ok"),
    ("string", "true", "true", "ok"), ("boolean", "False", False, "ok"), ("boolean", "FALSE", False, "ok"),
    ("boolean", "true", True, "ok"), ("boolean", "no", "no", "invalid_argument"), ("integer", "7", 7, "ok"),
    ("integer", "7.5", "7.5", "invalid_argument"), ("number", "7.5", 7.5, "ok"), ("number", "many", "many", "invalid_argument"),
    ("array", "[1, 2]", [1, 2], "ok"), ("object", '{"a": "é"}', {"a": "é"}, "ok"), ("object", "[1]", "[1]", "invalid_argument"),
    ("null", "null", None, "ok"), (["string", "null"], "null", None, "ok"), (["integer", "string"], "x", "x", "ok"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "value", "status"), TYPED, ids=str)
def test_xml_arguments_have_their_declared_type(renderer_of, kind, written, value, status):
    turn = qwen(renderer_of, QWEN_5)
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"properties": {"v": {"type": kind}}}}}]
    text = f"<tool_call>\n<function=look>\n<parameter=v>\n{written}\n</parameter>\n</function>\n</tool_call>"
    (call,) = parse(turn, with_call(turn, text), tools).tool_calls
    assert call.arguments == {"v": value}
    assert call.status == status
    assert "\\u" not in call["function"]["arguments"]


@pytest.mark.cases(that=has_call)
def test_what_was_parsed_goes_back_into_a_message(turn):
    text = CALLS[turn.case.renderer]
    out = parse(turn, with_call(turn, text))
    message = json.loads(json.dumps(out.to_message()))
    assert turn.resolved.render_ids([*shapes.OPENING, message, shapes.ONE], add_generation_prompt=True)


def test_parsing_never_raises(turn):
    vocabulary = len(turn.tokenizer)
    control = sorted(turn.resolved.upstream._control)
    for ids in ([], [-1], [vocabulary + 5], [2**40], [0] * 9, control[:60], turn.stops * 3, [*control[-20:], *turn.ids("x")]):
        out = turn.resolved.parse_response(ids, prompt_ids=turn.prompt)
        assert out.termination in (STOP, TRUNCATED, MALFORMED)
        assert turn.resolved.upstream.parse_response(ids, prompt_ids=turn.prompt) is not None


def test_role_colon_ends_at_its_text(renderer_of):
    base = renderer_of("role_colon", "Qwen/Qwen3-8B")
    tokenizer = oracle.tokenizer("Qwen/Qwen3-8B")
    assert (base.get_stop_token_ids(), base.get_stop_strings(), base.has_bridge) == (
        [tokenizer.eos_token_id],
        ["\n\nUser:"],
        False,
    )
    out = base.parse_response(shapes.encode(tokenizer, " four\n\nUser:"))
    assert (out.content, out.termination) == ("four", STOP)
    out = base.parse_response([*shapes.encode(tokenizer, " four"), tokenizer.eos_token_id])
    assert (out.content.strip(), out.termination) == ("four", STOP)
    assert base.parse_response(shapes.encode(tokenizer, " four and")).termination is TRUNCATED
    assert base.parse_response(shapes.encode(tokenizer, " four\n\nUser: x\n\nUser:")).termination is MALFORMED
    prompt = base.render_ids(shapes.OPENING, add_generation_prompt=True)
    assert base.bridge_to_next_turn(prompt, shapes.encode(tokenizer, " four\n\nUser:"), [shapes.user("x")]) is None
