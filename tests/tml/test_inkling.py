"""Inkling: a turn of several messages, each in a block of its own; effort; what its blocks are read as."""

from __future__ import annotations

import functools

import inkling
import pytest
import shapes
import tml_oracle as oracle

import rllm_renderer_core as core

MODEL = inkling.MODEL
END, NEXT, STOP = "<|end_message|>", "<|message_model|>", "<|content_model_end_sampling|>"
THOUGHT = f"<|content_thinking|>why{END}"
CALL = 'look<|content_invoke_tool_json|>{"name":"look","args":{"q":"tea"}}' + END
TOOLS = shapes.TOOLS


@functools.cache
def resolved(backend, effort=None):
    options = {} if effort is None else {"chat_template_kwargs": {"reasoning_effort": effort}}
    return core.resolve(MODEL, oracle.tokenizer(MODEL), backend=backend, parity="off", **options)


def parsed(text, backend):
    ids = oracle.tokenizer(MODEL).encode(text, add_special_tokens=False)
    return resolved(backend).parse_response(ids, tools=TOOLS)


on_both = pytest.mark.parametrize("backend", ["tml", "prime"])


def calls(out):
    return [(call.name, call.arguments, str(call.status.value)) for call in out.tool_calls]


def test_it_serves_inkling_where_nothing_above_it_does(monkeypatch):
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "prime,tinker")
    for model in (MODEL, "thinkingmachines/Inkling-Small"):
        assert core.select_backend(model).backend == "tml"


@pytest.mark.parametrize("effort", ["none", "low", "high", "max", 0.25])
def test_effort_is_written_as_renderers_writes_it(effort):
    messages = [{"role": "system", "content": "Be brief."}, shapes.user("ping")]
    ours, theirs = (resolved(backend, effort).render_ids(messages, add_generation_prompt=True) for backend in ("tml", "prime"))
    assert ours == theirs


@pytest.mark.parametrize("effort", ["xhigh", 1, 0.333, True])
def test_an_effort_that_would_be_written_otherwise_is_refused(effort):
    with pytest.raises(core.OptionError, match="reasoning_effort"):
        resolved("tml", effort)


@on_both
@pytest.mark.parametrize(
    "text, reasoning, content, found",
    [
        (THOUGHT + NEXT + f"<|content_text|>four\n{END}", "why", "four\n", []),
        (THOUGHT + NEXT + CALL, "why", "", [("look", {"q": "tea"}, "ok")]),
        (THOUGHT + NEXT + f"<|content_text|>{END}" + NEXT + CALL, "why", "", [("look", {"q": "tea"}, "ok")]),
        (f"<|content_text|>hm{END}" + NEXT + CALL + NEXT + CALL, None, "hm", [("look", {"q": "tea"}, "ok")] * 2),
        (CALL + NEXT + f"<|content_text|>so{END}", None, "so", [("look", {"q": "tea"}, "ok")]),
    ],
)
def test_blocks_in_any_order_are_read_by_their_kinds(text, reasoning, content, found, backend):
    out = parsed(text + STOP, backend)
    assert (out.reasoning_content, out.content, calls(out)) == (reasoning, content, found)
    assert out.termination is core.Termination.STOP and out.lossless


@on_both
@pytest.mark.parametrize(
    "text",
    [
        CALL.replace('{"name":"look"', '{"name":"count"') + STOP,  # two names
        CALL.replace("look<", "<").replace('"name":"look"', '"name":"count","name":"look"') + STOP,  # one after the other
        CALL.replace("}}", "}") + STOP,
        CALL.replace("args", "arguments") + STOP,
        CALL.replace(END, STOP),  # its message isn't closed
        CALL.replace(END, ""),
        CALL.replace("tea", "t<|content_text|>ea") + STOP,
        CALL.replace("look<", "wipe<").replace('"look"', '"wipe"') + STOP,  # not declared
    ],
)
def test_a_broken_call_is_kept_and_not_ok(text, backend):
    out = parsed(text, backend)
    assert len(out.tool_calls) == 1 and not out.runnable
    assert out.tool_calls[0].raw in text
    assert out.termination is not core.Termination.STOP or calls(out)[0][2] == "unknown_tool"


@on_both
def test_reasoning_that_was_cut_off_is_not_complete(backend):
    for text in ("<|content_thinking|>why", "<|content_thinking|>why" + STOP):
        out = parsed(text, backend)
        assert out.reasoning_content == "why" and not out.reasoning_complete
        assert out.termination is not core.Termination.STOP


def test_a_turn_of_several_messages_is_one_turn_to_attribution():
    tokenizer = oracle.tokenizer(MODEL)
    turn = {"role": "assistant", "content": "a", "reasoning_content": "b", "tool_calls": [shapes.call("look", "c0")]}
    result = {"role": "tool", "content": "r", "tool_call_id": "c0", "name": "look"}
    out = resolved("tml").render([shapes.user("ping"), turn, result], tools=TOOLS, add_generation_prompt=True)
    said = [token for token, sampled in zip(out.token_ids, out.sampled_mask, strict=True) if sampled]
    own = [token for token, index in zip(out.token_ids, out.message_indices, strict=True) if index == 1]
    text = tokenizer.decode(said)
    assert text.startswith("<|content_thinking|>b<|end_message|><|message_model|><|content_text|>a<|end_message|>")
    assert text.endswith("<|end_message|>" + STOP) and own == [tokenizer.convert_tokens_to_ids(NEXT), *said]
