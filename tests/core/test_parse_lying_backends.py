"""The parse contract catches backends that lie about a completion, each in its way; the honest one passes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import real_tokenizers
import shapes

from rllm_renderer_core import ToolCall, ToolCallStatus, resolve
from rllm_renderer_core.testing import wrap

HERMES, XML = "Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": {"q": {"type": "string"}, "n": {}}}}}
    for name in ("look", "rm")
]
CALLS = {
    HERMES: '<tool_call>\n{"name": "look", "arguments": {"q": "x != y , z", "n": 42}}\n</tool_call>\n'
    '<tool_call>\n{"name": "rm", "arguments": {"q": "  a\\n", "n": [1, "é"]}}\n</tool_call>',
    XML: "<tool_call>\n<function=look>\n<parameter=q>\nx != y , z\n</parameter>\n<parameter=n>\n42\n</parameter>\n</function>\n"
    '</tool_call>\n<tool_call>\n<function=rm>\n<parameter=q>\n  a\n\n</parameter>\n<parameter=n>\n[1, "é"]\n</parameter>\n'
    "</function>\n</tool_call>",
}


class Liar:
    """A backend's renderer whose parse is changed by ``lie``."""

    def __init__(self, inner, lie):
        self._inner, self._lie = inner, lie

    def parse_response(self, token_ids, **more):
        out = self._inner.parse_response(token_ids, **more)
        self._lie(out)
        return out

    def __getattr__(self, name):
        if name.startswith("__") or name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def traits(self):
        return replace(self._inner.traits, second_parser=lambda: None)

    # The protocol is checked by the class's attributes.
    def render(self, *args, **more):
        return self._inner.render(*args, **more)

    def render_ids(self, *args, **more):
        return self._inner.render_ids(*args, **more)

    def get_stop_token_ids(self):
        return self._inner.get_stop_token_ids()

    def bridge_to_next_turn(self, *args, **more):
        return self._inner.bridge_to_next_turn(*args, **more)


def with_arguments(out, at, arguments):
    call = out.tool_calls[at]
    out.tool_calls[at] = ToolCall(call.name, arguments, id=call.id, raw=call.raw)


def loses_text(out):
    out.content = out.content.replace("Both ", "")


def empties_arguments(out):
    with_arguments(out, 1, {})


def swaps_calls(out):
    out.tool_calls.reverse()


def swaps_arguments(out):
    one, two = (call["function"]["arguments"] for call in out.tool_calls)
    with_arguments(out, 0, two)
    with_arguments(out, 1, one)


def says_it_twice(out):
    out.content = f"{out.reasoning_content}{out.content}"


def changes_a_type(out):
    with_arguments(out, 0, {"q": "x != y , z", "n": "forty-two"})


def cleans_spaces_up(out):
    with_arguments(out, 0, {"q": "x!= y, z", "n": 42})


def trims_a_value(out):
    with_arguments(out, 1, {"q": "a", "n": [1, "é"]})


def renames(out):
    call = out.tool_calls[0]
    out.tool_calls[0] = ToolCall("rm", call["function"]["arguments"], raw=call.raw)


def invents_a_call(out):
    out.tool_calls.append(ToolCall("rm", {"q": "/"}, raw=""))


def repeats_a_call(out):
    out.tool_calls.append(copy.copy(out.tool_calls[-1]))


def forgets_a_call(out):
    out.tool_calls.pop()


def moves_text(out):
    out.content = " ".join(reversed(out.content.split()))


LIES = [
    loses_text, empties_arguments, swaps_calls, swaps_arguments, says_it_twice, changes_a_type, cleans_spaces_up, trims_a_value,
    renames, invents_a_call, repeats_a_call, forgets_a_call, moves_text,
]  # fmt: skip


@pytest.fixture(scope="module", params=[HERMES, XML])
def completion(request):
    """Renderer, tokenizer, and the ids of a completion with reasoning, text and two calls."""
    model = request.param
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    renderer = resolve(model, tokenizer, parity="off")
    opening = "<think>\n" if model == HERMES else ""
    text = f"{opening}Weighing.\n</think>\n\nBoth first.\n{CALLS[model]}"
    return renderer, tokenizer, [*shapes.encode(tokenizer, text), tokenizer.eos_token_id]


def parsed(completion, lie):
    renderer, tokenizer, ids = completion
    return wrap(Liar(renderer.upstream, lie), tokenizer).parse_response(ids, tools=TOOLS)


def test_the_honest_backend_is_lossless(completion):
    out = parsed(completion, lambda out: None)
    assert (out.lossless, out.loss) == (True, None)
    assert [(call.name, call.status) for call in out.tool_calls] == [("look", "ok"), ("rm", "ok")]
    assert out.tool_calls[1].arguments["q"] in ("  a\n",)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_caught(completion, lie):
    honest = parsed(completion, lambda out: None)
    out = parsed(completion, lie)
    assert not out.lossless
    assert out.loss
    truth = [(call.name, call.arguments) for call in honest.tool_calls]
    for call in out.runnable:
        assert (call.name, call.arguments) in truth
    assert len(out.runnable) <= len(truth)


def test_a_call_inside_a_thought_is_a_sketch(completion):
    renderer, tokenizer, _ = completion
    model = tokenizer.name_or_path
    first = CALLS[model].partition("</tool_call>")[0] + "</tool_call>"
    thought = f"Maybe\n{first}\nor not."
    text = ("<think>\n" if model == HERMES else "") + f"{thought}\n</think>\n\nFour."
    ids = [*shapes.encode(tokenizer, text), tokenizer.eos_token_id]

    def takes_it_for_a_call(out):
        out.reasoning_content, out.content = None, text.replace(first, "")
        out.tool_calls = [ToolCall("look", {"q": "x != y , z", "n": 42}, raw=first)]

    def takes_both(out):
        takes_it_for_a_call(out)
        out.content = f"{text}\n{first}".replace(first, "")
        out.tool_calls *= 2

    honest = renderer.parse_response(ids, tools=TOOLS)
    assert (honest.reasoning_content.strip(), honest.content.strip(), honest.tool_calls) == (thought, "Four.", [])
    out = wrap(Liar(renderer.upstream, takes_it_for_a_call), tokenizer).parse_response(ids, tools=TOOLS)
    assert out.tool_calls and not out.runnable and "stands in the reasoning" in out.loss
    twice = [*shapes.encode(tokenizer, f"{text}\n{first}"), tokenizer.eos_token_id]
    assert [call.name for call in renderer.parse_response(twice, tools=TOOLS).runnable] == ["look"]
    out = wrap(Liar(renderer.upstream, takes_both), tokenizer).parse_response(twice, tools=TOOLS)
    assert len(out.runnable) < 2 and "stands in the reasoning" in out.loss


def test_the_check_can_be_left_out(completion):
    renderer, tokenizer, ids = completion
    unchecked = resolve(tokenizer.name_or_path, tokenizer, parity="off", parse_check="off")
    assert unchecked.resolution == renderer.resolution
    out = unchecked.parse_response(ids, tools=TOOLS)
    assert [call.status for call in out.tool_calls] == [ToolCallStatus.OK, ToolCallStatus.OK]
