"""Completions to structure: reasoning, typed arguments, broken attempts, termination."""

from __future__ import annotations

import json
import unicodedata

import m3_strategies as strategies
import m3_tokenizer as m3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import how_many

from rllm_renderer_core.types import Termination, ToolCallStatus

tokenizer = m3.load()
NS = "]<]minimax[>["
STOP = "[e~["
USER = {"role": "user", "content": "hi"}


def tool(name="look", **properties):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


def parse(text, tools=None, mode="adaptive", prompt_ids=None):
    ids = tokenizer.encode(text, add_special_tokens=False)
    return m3.renderer(thinking_mode=mode).parse_response(ids, tools=tools, prompt_ids=prompt_ids)


def block(*invokes):
    return f"{NS}<tool_call>\n" + "".join(invokes) + f"{NS}</tool_call>"


def invoke(inner, name="look"):
    return f'{NS}<invoke name="{name}">{inner}{NS}</invoke>\n'


def leaf(value, key="v"):
    return f"{NS}<{key}>{value}{NS}</{key}>"


def one(value_text, schema, key="v"):
    """Value and status of one argument as the model wrote it."""
    (found,) = parse("</mm:think>" + block(invoke(leaf(value_text, key))) + STOP, [tool(**{key: schema})]).tool_calls
    return found.arguments[key], found.status


OK, INVALID = ToolCallStatus.OK, ToolCallStatus.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "text, schema, expected",
    [
        ("0042", {"type": "string"}, ("0042", OK)),
        ("[1, 2]", {"type": "string"}, ("[1, 2]", OK)),
        ("null", {"type": ["string", "null"]}, (None, OK)),
        ("", {"type": "string"}, ("", OK)),
        ("\n a \n", {"type": "string"}, ("\n a \n", OK)),
        ("false", {"type": "boolean"}, (False, OK)),
        ("False", {"type": "boolean"}, (False, OK)),
        ("FALSE", {"type": "boolean"}, (False, OK)),
        ("no", {"type": "boolean"}, ("no", INVALID)),
        ("42", {"type": "integer"}, (42, OK)),
        (" 42\n", {"type": "integer"}, (42, OK)),
        ("4.5", {"type": "integer"}, ("4.5", INVALID)),
        ("4.0", {"type": "integer"}, (4.0, OK)),
        ("1e+22", {"type": "number"}, (1e22, OK)),
        ("NaN", {"type": "number"}, ("NaN", INVALID)),
        ("1e999", {"type": "number"}, ("1e999", INVALID)),
        ("9" * 5000, {"type": "integer"}, ("9" * 5000, INVALID)),
        ("true", {"type": "number"}, ("true", INVALID)),
        ("", {"type": ["integer", "null"]}, (None, OK)),
        ("42", {"type": ["string", "integer"]}, ("42", OK)),
        ("042", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, ("042", OK)),
        ("2", {"enum": [1, 2]}, (2, OK)),
        ("2", {"enum": ["1", "2"]}, ("2", OK)),
        ("", {"type": "array"}, ([], OK)),
        ("", {"type": "object"}, ({}, OK)),
        ('[1, {"a": null}]', {"type": "array"}, ([1, {"a": None}], OK)),
        ("[1", {"type": "array"}, ("[1", INVALID)),
        (leaf("1", "item") + leaf("x", "item"), {"type": "array"}, ([1, "x"], OK)),
        (leaf("1", "item"), {"type": "array", "items": {"type": "string"}}, (["1"], OK)),
        (leaf("1", "item"), {"type": "object"}, ({"item": 1}, OK)),
        (leaf("1", "a"), {"type": "object", "additionalProperties": {"type": "string"}}, ({"a": "1"}, OK)),
        (leaf("no", "a"), {"type": "object", "properties": {"a": {"type": "boolean"}}}, (leaf("no", "a"), INVALID)),
        (leaf("1", "a"), {"type": "string"}, (leaf("1", "a"), INVALID)),
        ("7", {}, (7, OK)),
        ("007", {}, ("007", OK)),
        ("x", {"$ref": "#"}, ("x", INVALID)),
        ("x", {"type": 5}, ("x", OK)),
    ],
)
def test_argument(text, schema, expected):
    value, status = one(text, schema)
    assert (value, status) == expected and type(value) is type(expected[0])


def test_ref_into_the_tool_s_own_definitions():
    declared = tool(v={"$ref": "#/$defs/n"})
    declared["function"]["parameters"]["$defs"] = {"n": {"type": "string"}}
    (found,) = parse(block(invoke(leaf("7"))) + STOP, [declared]).tool_calls
    assert found.arguments == {"v": "7"}


def test_one_call_is_neutral():
    text = "<mm:think>why</mm:think>Let me see.\n" + block(invoke(leaf("tea", "q"))) + STOP
    parsed = parse(text, [tool(q={"type": "string"})])
    assert (parsed.content, parsed.reasoning_content) == ("Let me see.\n", "why")
    assert parsed.termination is Termination.STOP and parsed.reasoning_complete
    (found,) = parsed.tool_calls
    assert found == {"id": None, "type": "function", "function": {"name": "look", "arguments": '{"q": "tea"}'}}
    assert found.status is OK and found.raw == invoke(leaf("tea", "q")).rstrip()


def test_a_call_sketched_in_reasoning_stays_there():
    sketch = block(invoke(leaf("sketch", "q")))
    parsed = parse(f"<mm:think>maybe {sketch} or</mm:think>" + block(invoke(leaf("real", "q"))) + STOP)
    assert [found.arguments for found in parsed.tool_calls] == [{"q": "real"}]
    assert parsed.reasoning_content == f"maybe {sketch} or"


def test_tags_written_as_ordinary_text_are_text():
    subject = m3.renderer()
    text = f"<mm:think>no</mm:think>{block(invoke(leaf('x', 'q')))}[e~["
    message = {"role": "assistant", "content": text, "reasoning_content": text}
    prompt = subject.render_ids([USER], add_generation_prompt=True)
    parsed = subject.parse_response(subject.render_ids([USER, message])[len(prompt) : -1], prompt_ids=prompt)
    assert (parsed.content, parsed.reasoning_content, parsed.tool_calls) == (text, text, [])
    assert parsed.termination is Termination.STOP


@pytest.mark.parametrize(
    "mode, text, content, reasoning, termination, complete",
    [
        ("enabled", "a</mm:think>b[e~[", "b", "a", "stop", True),
        ("enabled", "<mm:think>a</mm:think>b[e~[", "b", "a", "stop", True),
        ("enabled", "Weighing both, the first", "", "Weighing both, the first", "truncated", False),
        ("enabled", "a[e~[", "", "a", "malformed", False),
        ("enabled", "", "", "", "truncated", False),
        ("disabled", "b[e~[", "b", None, "stop", True),
        ("disabled", "b", "b", None, "truncated", True),
        ("disabled", "<mm:think>a</mm:think>b[e~[", "b", "a", "malformed", True),
        ("disabled", "b</mm:think>c[e~[", "b</mm:think>c", None, "malformed", True),
        ("adaptive", "</mm:think>b[e~[", "b", None, "stop", True),
        ("adaptive", "<mm:think>\na\n</mm:think>\n\nb[e~[", "\n\nb", "\na\n", "stop", True),
        ("adaptive", "<mm:think></mm:think>b[e~[", "b", "", "stop", True),
        ("adaptive", "a</mm:think>b[e~[", "b", "a", "stop", True),
        ("adaptive", "b[e~[", "b", None, "stop", True),
        ("adaptive", "<mm:think>a</mm:think>b<mm:think>c</mm:think>d[e~[", "bd", "ac", "malformed", True),
        ("adaptive", "<mm:think>a</mm:think>b<mm:think>c", "b", "ac", "truncated", False),
        ("adaptive", "b[e~[[e~[", "b", None, "malformed", True),
        ("adaptive", "b[e~[\n", "b", None, "malformed", True),
        ("adaptive", "b]~b]user\nc[e~[", "b]~b]user\nc", None, "malformed", True),
        ("adaptive", "", "", None, "truncated", True),
    ],
)
def test_reasoning_and_termination(mode, text, content, reasoning, termination, complete):
    parsed = parse(text, mode=mode)
    assert (parsed.content, parsed.reasoning_content) == (content, reasoning)
    assert (parsed.termination, parsed.reasoning_complete) == (termination, complete)


def test_the_prompt_decides_over_the_options():
    prompt = m3.renderer(True).render_ids([USER], add_generation_prompt=True)
    parsed = parse("Weighing both", mode="disabled", prompt_ids=prompt)
    assert (parsed.reasoning_content, parsed.reasoning_complete) == ("Weighing both", False)


BROKEN = {
    "cut in a value": (f'{NS}<tool_call>\n{NS}<invoke name="look">{leaf("1", "a")}{NS}<v>te', ["unclosed_block"], "truncated"),
    "cut after the block's tag": (f"{NS}<tool_call>", ["unclosed_block"], "truncated"),
    "first call complete, second cut": (
        f'{NS}<tool_call>\n{invoke("")}{NS}<invoke name="l',
        ["ok", "missing_name"],
        "truncated",
    ),
    "no name": (block(invoke("", name="")) + STOP, ["missing_name"], "malformed"),
    "no attribute": (block(f"{NS}<invoke>{NS}</invoke>\n") + STOP, ["missing_name"], "malformed"),
    "empty block": (block() + STOP, ["malformed_structure"], "malformed"),
    "text in a block": (block("look(tea)") + STOP, ["malformed_structure"], "malformed"),
    "crossed tags": (block(invoke(f"{NS}<a>1{NS}</b>{NS}</a>")) + STOP, ["malformed_structure"], "malformed"),
    "text beside children": (block(invoke(leaf("x" + leaf("1")))) + STOP, ["malformed_structure"], "malformed"),
    "one argument twice": (block(invoke(leaf(1) + leaf(2))) + STOP, ["malformed_structure"], "malformed"),
    "call outside a block": (invoke(leaf(1)).rstrip() + STOP, ["malformed_structure"], "malformed"),
    "unclosed call before another": (
        block(f'{NS}<invoke name="look">{leaf(1)}', invoke(leaf(2))) + STOP,
        ["unclosed_block", "ok"],
        "malformed",
    ),
    "block never closed": (f"{NS}<tool_call>\n{invoke(leaf(1))}{STOP}", ["ok"], "malformed"),
    "unknown tool": (block(invoke("", name="other")) + STOP, ["unknown_tool"], "stop"),
    "deep": (block(invoke("".join(f"{NS}<k{n}>" for n in range(3000)))) + STOP, ["malformed_structure"], "malformed"),
    "tag without a meaning": (f"a{NS}<b>{STOP}", [], "malformed"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_attempts_are_kept(case):
    text, statuses, termination = BROKEN[case]
    parsed = parse("</mm:think>" + text, [tool(a={"type": "integer"}, v={})])
    assert [found.status for found in parsed.tool_calls] == statuses
    assert parsed.termination == termination
    for found in parsed.tool_calls:
        assert found.raw and (found.name or found.status is not OK)
        json.dumps(found)


def test_half_a_value_is_no_value():
    (found,) = parse("</mm:think>" + BROKEN["cut in a value"][0], [tool(a={"type": "integer"}, v={})]).tool_calls
    assert found.arguments == {"a": 1}


@settings(
    max_examples=how_many(50, 400), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*range(200050, 200061), 200019, 200020, 10, 60, 62, 1579]),
            st.sampled_from(tokenizer.encode('<invoke name="look"></invoke><v></v><item>')),
            st.integers(-3, 2**34),
        ),
        max_size=30,
    ),
    st.sampled_from(
        [None, [], [tool(v={"type": "integer"})], [{"bad": 1}], "nonsense", [tool(v="bad"), tool("b", v={"type": []})]]
    ),
    st.one_of(st.none(), st.lists(st.sampled_from([200019, 200059, 200060, 5]), max_size=4)),
)
def test_never_raises(ids, tools, prompt_ids):
    parsed = m3.renderer().parse_response(ids, tools=tools, prompt_ids=prompt_ids)
    json.dumps(parsed.to_message())


# The tokenizer composes ">" and U+0338 to one letter, in the template's rendering as in this one, and the tag is gone.
words = strategies.any_text.filter(lambda text: not text.startswith("\u0338"))
SCALARS = {"string": words, "integer": st.integers(), "boolean": st.booleans(),
           "number": st.floats(allow_nan=False, allow_infinity=False)}  # fmt: skip


def typed(depth=2):
    """Pairs of a schema and a strategy for its values."""
    simple = st.sampled_from(sorted(SCALARS)).map(lambda kind: ({"type": kind}, SCALARS[kind]))
    if not depth:
        return simple
    inner = typed(depth - 1)
    array = inner.map(lambda pair: ({"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=3)))
    members = st.dictionaries(strategies.keys, inner, max_size=3)
    return st.one_of(simple, array, members.map(as_object))


def as_object(members):
    schema = {"type": "object", "properties": {key: pair[0] for key, pair in members.items()}}
    return schema, st.fixed_dictionaries({}, optional={key: pair[1] for key, pair in members.items()})


def composed(value):
    """The tokenizer composes text (NFC), so that is what comes back."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, dict):
        return {key: composed(inner) for key, inner in value.items()}
    return [composed(inner) for inner in value] if isinstance(value, list) else value


@settings(
    max_examples=how_many(50, 400), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(st.data(), st.sampled_from(["enabled", "disabled", "adaptive"]))
def test_round_trip(data, mode):
    schemas = data.draw(st.lists(st.dictionaries(strategies.keys, typed(), max_size=3).map(as_object), min_size=1, max_size=2))
    tools = [{"type": "function", "function": {"name": f"t{n}", "parameters": s}} for n, (s, _) in enumerate(schemas)]
    called = data.draw(st.lists(st.integers(0, len(schemas) - 1), max_size=3))
    calls = [(f"t{n}", data.draw(schemas[n][1])) for n in called]
    message = {
        "role": "assistant",
        "content": data.draw(strategies.any_text),
        "tool_calls": [m3.call(name, json.dumps(arguments)) for name, arguments in calls],
    }
    if mode == "enabled" or (mode == "adaptive" and data.draw(st.booleans())):
        message["reasoning_content"] = data.draw(strategies.any_text.filter(bool))
    subject = m3.renderer(thinking_mode=mode)
    rendered = subject.render([USER, message], tools=tools)
    completion = [token for token, sampled in zip(rendered.token_ids, rendered.sampled_mask, strict=True) if sampled]
    prompt = subject.render_ids([USER], tools=tools, add_generation_prompt=True)
    assert rendered.token_ids == [*prompt, *completion, 10]
    parsed = subject.parse_response(completion, tools=tools, prompt_ids=prompt)
    assert parsed.termination is Termination.STOP
    assert composed(parsed.content) == composed(message["content"])
    assert composed(parsed.reasoning_content) == composed(message.get("reasoning_content"))
    assert [composed([found.name, found.arguments]) for found in parsed.tool_calls] == [composed(list(pair)) for pair in calls]
    assert subject.render_ids([USER, parsed.to_message()], tools=tools) == rendered.token_ids
