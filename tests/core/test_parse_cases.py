"""Faults from the field on the way back, each on every backend that has the model."""

from __future__ import annotations

import copy
import json

import pytest
import real_tokenizers
import shapes
from parse_formats import DSML, FORMATS, GLM, TOOLS, glm, m2, served, v4, xml

from rllm_renderer_core import Termination, resolve
from rllm_renderer_core.errors import MessageError, RendererError

each_format = pytest.mark.parametrize(("backend", "model", "call"), FORMATS, ids=lambda each: getattr(each, "__name__", each))


def parse(backend, model, text, *, tools=TOOLS, stop=True):
    resolved, tokenizer = served(backend, model)
    ending = [tokenizer.eos_token_id] if stop else []
    if stop and tokenizer.eos_token_id not in resolved.get_stop_token_ids():
        ending = resolved.get_stop_token_ids()[:1]
    return resolved.parse_response([*shapes.encode(tokenizer, text), *ending], tools=tools)


def told(out):
    """Whether nothing is lost in silence: no OK call, or the reason why some text isn't in the parse."""
    return [(call.name, call.arguments) for call in out.runnable]


@each_format
def test_a_good_call_is_ok_and_lossless(backend, model, call):
    out = parse(backend, model, f"why</think>{call(('path', '/tmp'), ('n', '7'))}")
    assert told(out) == [("rm", {"path": "/tmp", "n": 7})]
    assert (out.lossless, out.loss, out.termination) == (True, None, Termination.STOP)


@each_format
def test_a_number_beyond_json(backend, model, call):
    (found,) = parse(backend, model, f"why</think>{call(('n', '1e400'))}").tool_calls
    assert found.status != "ok"
    assert "1e400" in found.raw


@each_format
@pytest.mark.parametrize("value", ["1e400", "NaN", "[-1e400]"])
def test_an_undeclared_number_beyond_json_stays_text(backend, model, call, value):
    arguments = [
        found["function"]["arguments"] for found in parse(backend, model, f"why</think>{call(('u', value))}").tool_calls
    ]
    assert arguments and not any(word in text for text in arguments for word in ("Infinity", "nan")) and value in arguments[0]
    assert json.loads(arguments[0], parse_constant=pytest.fail)


@each_format
def test_an_integer_of_4400_digits(backend, model, call):
    out = parse(backend, model, f"why</think>{call(('i', '4' * 4400))}")
    assert out.reasoning_content == "why"
    assert told(out) == []
    assert "4" * 4400 in out.tool_calls[0].raw


@each_format
def test_declared_string_and_number(backend, model, call):
    assert told(parse(backend, model, f"why</think>{call(('path', '10001'))}")) == [("rm", {"path": "10001"})]
    assert told(parse(backend, model, f"why</think>{call(('n', 'soon'))}")) == []


@each_format
def test_one_parameter_twice(backend, model, call):
    assert told(parse(backend, model, f"why</think>{call(('path', '/a'), ('path', '/b'))}")) == []


@each_format
def test_a_boolean_or_null_as_python_prints_it(backend, model, call):
    found = told(parse(backend, model, f"why</think>{call(('deep', 'false'))}"))
    assert found == [("rm", {"deep": False})]
    if call is xml:
        assert told(parse(backend, model, f"why</think>{call(('deep', 'False'))}")) == [("rm", {"deep": False})]


@each_format
def test_a_parameter_without_its_close(backend, model, call):
    text = call(("path", "/tmp"), ("n", "7"))
    for closing in ("</parameter>", "</arg_value>", f"</{DSML}parameter>"):
        if closing in text:
            at = text.index(closing)
            for broken in (text[:at] + text[at + len(closing) :], text[:at] + text[at:].replace(closing, "")):
                assert ("rm", {}) not in told(parse(backend, model, f"why</think>{broken}"))
                assert told(parse(backend, model, f"why</think>{broken}")) in ([], [("rm", {"path": "/tmp", "n": 7})])


@each_format
def test_a_close_spelled_inside_a_value(backend, model, call):
    for closing in ("</parameter>", "</tool_call>", "</function>", "</invoke>"):
        value = f"a {closing} b"
        assert told(parse(backend, model, f"why</think>{call(('path', value))}")) in ([], [("rm", {"path": value})])


@each_format
def test_a_tool_that_is_not_declared(backend, model, call):
    other = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    out = parse(backend, model, f"why</think>{call(('path', '/tmp'))}", tools=other)
    assert [found.status for found in out.tool_calls] == ["unknown_tool"]
    assert out.to_message()["tool_calls"]


@pytest.mark.parametrize("backend", ["prime", "tinker", "chat-template"])
@pytest.mark.parametrize(
    ("model", "name", "before", "behind"),
    [
        ("moonshotai/Kimi-K2.6", "call_9f", "<|tool_calls_section_begin|><|tool_call_begin|>",
         "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"),
        ("Qwen/Qwen3-8B", "r\\nm", '<tool_call>\n{"name": "', '", "arguments": {}}\n</tool_call>'),
    ],
    ids=["an id for a name", "a newline"],
)  # fmt: skip
def test_a_name_that_no_tool_has(backend, model, name, before, behind):
    prefix = "why</think>" if "Kimi" in model else ""
    out = parse(backend, model, f"{prefix}{before}{name}{behind}")
    assert told(out) == []
    assert len(out.tool_calls) == 1 and name in out.tool_calls[0].raw


@each_format
def test_a_second_close_of_the_reasoning_is_text(backend, model, call):
    out = parse(backend, model, "why</think>A </think> B")
    assert (out.reasoning_content, out.content.strip()) == ("why", "A </think> B")
    assert (out.termination, out.lossless) == (Termination.MALFORMED, True)


@each_format
@pytest.mark.parametrize("behind", ["x</think> B", "x"], ids=["closed", "left open"])
def test_a_second_thought_is_never_joined_with_the_first_in_silence(backend, model, call, behind):
    out = parse(backend, model, f"why</think>A <think>{behind}")
    assert out.termination is Termination.MALFORMED
    if out.lossless:
        assert (out.reasoning_content, out.content.strip()) == ("why", f"A <think>{behind}")


@each_format
@pytest.mark.parametrize("behind", [" no</think> B", ""], ids=["closed", "left open"])
def test_a_call_in_a_second_thought_is_a_sketch(backend, model, call, behind):
    assert told(parse(backend, model, f"why</think>A <think>maybe {call(('path', '/tmp'))}{behind}")) == []


@each_format
def test_a_call_in_a_thought_that_never_closes_is_a_sketch(backend, model, call):
    out = parse(backend, model, f"why {call(('path', '/tmp'))}")
    assert told(out) == []
    assert out.termination is Termination.MALFORMED and "why" in (out.reasoning_content or "")


@each_format
def test_a_cut_second_call_leaves_the_first(backend, model, call):
    text = call(("path", "/tmp"))
    second = text.replace("/tmp", "/var")
    both = f"why</think>{text}\n{second}"
    if call in (m2, v4):
        opening = "<invoke" if call is m2 else f"<{DSML}invoke"
        both = f"why</think>{text[: text.rindex('</invoke>') + 9] if call is m2 else text[: text.rindex(f'</{DSML}tool')]}"
        both += f"\n{second[second.index(opening) :]}"
    out = parse(backend, model, both[: both.rindex("/var") + 2], stop=False)
    assert told(out) == [("rm", {"path": "/tmp"})]
    assert out.termination is Termination.TRUNCATED


def test_decoding_changes_no_space():
    model = "meta-llama/Llama-3.1-8B-Instruct"
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = copy.copy(real_tokenizers.load(model))
    tokenizer.clean_up_tokenization_spaces = True
    for backend in ("prime", "tinker", "chat-template"):
        try:
            resolved = resolve(model, tokenizer, backend=backend, parity="off")
        except RendererError as error:
            pytest.skip(f"not proved on {backend}: {str(error).splitlines()[0]}")
        out = resolved.parse_response([*shapes.encode(tokenizer, "x != y , z"), tokenizer.eos_token_id])
        assert (out.content, out.lossless) == ("x != y , z", True)
        assert tokenizer.clean_up_tokenization_spaces is True
        assert resolved.tokenizer is tokenizer


@pytest.mark.parametrize("backend", ["prime", "fireworks", "chat-template"])
def test_the_label_of_the_reasoning_is_none_of_it(backend):
    text = "<|channel>thought\nwhy\n<channel|>four"
    out = parse(backend, "google/gemma-4-E2B-it", text, tools=None)
    assert (out.reasoning_content.strip(), out.content) == ("why", "four")


@pytest.mark.parametrize(("backend", "model"), [("prime", "zai-org/GLM-5"), ("prime", "zai-org/GLM-4.5"), ("fireworks", GLM)])
def test_a_prompt_that_closed_the_reasoning(backend, model):
    resolved, tokenizer = served(backend, model)
    prompt = [*resolved.render_ids([shapes.user("x")], add_generation_prompt=True), *shapes.encode(tokenizer, "short</think>")]
    out = resolved.parse_response([*shapes.encode(tokenizer, "four"), tokenizer.eos_token_id], prompt_ids=prompt)
    assert (out.content, out.reasoning_content, out.termination) == ("four", None, Termination.STOP)
    called = [*shapes.encode(tokenizer, f"four{glm(('path', '/tmp'))}"), tokenizer.eos_token_id]
    out = resolved.parse_response(called, tools=TOOLS, prompt_ids=prompt)
    assert (out.content.strip(), out.reasoning_content, told(out)) == ("four", None, [("rm", {"path": "/tmp"})])


def test_a_result_of_a_call_to_a_tool_that_is_not_declared():
    model = "MiniMaxAI/MiniMax-M3"
    ns = "]<]minimax[>["
    text = f'</mm:think>{ns}<tool_call>{ns}<invoke name="other">{ns}<q>x{ns}</q>{ns}</invoke>{ns}</tool_call>'
    out = parse("minimax-m3", model, text)
    assert [call.status for call in out.tool_calls] == ["unknown_tool"]
    resolved, _ = served("minimax-m3", model)
    message = out.to_message()
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "no such tool"}
    assert resolved.render_ids([shapes.user("x"), message, result], tools=TOOLS, add_generation_prompt=True)


@each_format
@pytest.mark.parametrize("written", ["False", "false", "FALSE"])
def test_a_declared_boolean(backend, model, call, written):
    if call is v4 and written != "false":
        pytest.skip("not of this format: DeepSeek-V4 writes booleans as JSON")
    assert told(parse(backend, model, f"why</think>{call(('deep', written))}")) == [("rm", {"deep": False})]


@each_format
def test_a_word_that_is_no_boolean(backend, model, call):
    out = parse(backend, model, f"why</think>{call(('deep', 'no'))}")
    assert told(out) == []
    assert "no" in out.tool_calls[0].raw


@each_format
@pytest.mark.parametrize("written", ["[1, 2]", "0042"])
def test_a_declared_string_stays_as_it_is(backend, model, call, written):
    assert told(parse(backend, model, f"why</think>{call(('path', written))}")) == [("rm", {"path": written})]


@pytest.mark.parametrize(("backend", "model"), sorted({(backend, model) for backend, model, _ in FORMATS}))
def test_arguments_as_a_mapping_or_as_text(backend, model):
    resolved, _ = served(backend, model)

    def ids(arguments):
        called = {"id": "call00000", "type": "function", "function": {"name": "rm", "arguments": arguments}}
        turn = {"role": "assistant", "content": "", "tool_calls": [called]}
        return resolved.render_ids([shapes.user("ping"), turn], tools=TOOLS)

    assert ids({"path": "tea"}) == ids('{"path": "tea"}')
    with pytest.raises(MessageError) as refused:
        ids('{"path": ')
    assert refused.value.index == 1


@pytest.mark.parametrize("backend", ["prime", "tinker", "chat-template"])
def test_a_marker_in_ordinary_tokens_is_text_of_a_value(backend):
    model = "Qwen/Qwen3-8B"
    resolved, tokenizer = served(backend, model)
    before, behind = '<tool_call>\n{"name": "rm", "arguments": {"path": "a ', ' b"}}\n</tool_call>'
    spelled = [*shapes.encode(tokenizer, "</tool"), *shapes.encode(tokenizer, "_call>")]
    ids = [*shapes.encode(tokenizer, before), *spelled, *shapes.encode(tokenizer, behind), tokenizer.eos_token_id]
    out = resolved.parse_response(ids, tools=TOOLS)
    assert told(out) == [("rm", {"path": "a </tool_call> b"})]
    opened = [*shapes.encode(tokenizer, "<tool"), *shapes.encode(tokenizer, "_call>\n")]
    out = resolved.parse_response([*opened, *ids[2:]], tools=TOOLS)
    assert told(out) == []


@pytest.mark.parametrize("backend", ["prime", "fireworks", "chat-template"])
def test_a_call_is_not_ok_because_another_one_has_its_text(backend):
    one = '<tool_call>rm<arg_key> "x"</arg_value><arg_key>i</arg_key><arg_value>3</arg_value></tool_call>'
    cut = "<tool_call>rm<arg_key>path</arg_key><arg_value>it's</tool_call>"
    two = one.replace("rm", "rm</think>").replace("3", "4")
    assert told(parse(backend, GLM, f"why not</think>Both first.{cut}{one}{two}", stop=False)) == []
