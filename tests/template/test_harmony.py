"""Harmony's completions on every backend: calls in each order of their header, text beside them, and where sampling stopped."""

from __future__ import annotations

import pytest
import real_tokenizers
import shapes
from rllm_renderer_template.parser import learned as learned

from rllm_renderer_core import Termination, ToolCallStatus, resolve
from rllm_renderer_core.errors import RendererError

MODEL = "openai/gpt-oss-20b"
BACKENDS = ("prime", "tinker", "tml", "chat-template")
HEADS = (
    " to=functions.look<|channel|>commentary <|constrain|>json",
    "<|channel|>commentary to=functions.look <|constrain|>json",
    "<|channel|>commentary to=functions.look<|constrain|>json",
    "<|channel|>commentary to=functions.look code",
    "<|channel|>analysis to=functions.look",
)
ANALYSIS = "<|channel|>analysis<|message|>why<|end|><|start|>assistant"


@pytest.fixture(params=BACKENDS)
def parse(request):
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(f"not proved: {why}")
    tokenizer = real_tokenizers.load(MODEL)
    try:
        renderer = resolve(MODEL, tokenizer, backend=request.param, parity="off")
    except RendererError as error:
        pytest.skip(f"not proved on {request.param}: {str(error).splitlines()[0]}")
    return lambda text: renderer.parse_response(shapes.encode(tokenizer, text), tools=shapes.TOOLS)


def test_a_call_in_each_order_of_its_header(parse):
    for head in HEADS:
        for before in ("", ANALYSIS):
            out = parse(f'{before}{head}<|message|>{{"q": "tea"}}<|call|>')
            assert [(call.name, call.arguments, call.status) for call in out.tool_calls] == [
                ("look", {"q": "tea"}, ToolCallStatus.OK)
            ], head
            assert (out.content, out.reasoning_content, out.termination) == ("", "why" if before else None, Termination.STOP)
            assert out.lossless


@pytest.mark.parametrize("name", ["to_json", "decode", "json"])
def test_a_name_that_ends_like_the_kind_of_body(parse, name):
    for head in (HEADS[0], HEADS[3], HEADS[4]):
        out = parse(f"{head.replace('look', name)}<|message|>{{}}<|call|>")
        assert [(call.name, call.status) for call in out.tool_calls] == [(name, ToolCallStatus.UNKNOWN_TOOL)], head


def test_two_recipients_are_no_call(parse):
    text = '{head}<|message|>{{"q": "tea"}}<|call|>'
    assert not parse(text.format(head=" to=functions.rm<|channel|>commentary to=functions.look")).runnable
    assert parse(text.format(head=" to=functions.look<|channel|>commentary to=functions.look")).runnable


def test_text_of_a_kind(parse):
    out = parse('<|channel|>final <|constrain|>json<|message|>{"q": "tea"}<|return|>')
    assert (out.content, out.termination, out.lossless) == ('{"q": "tea"}', Termination.STOP, True)


def test_text_beside_a_call(parse):
    said = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
    out = parse(f'{ANALYSIS}{said}{HEADS[1]}<|message|>{{"q": "tea"}}<|call|>')
    assert (out.reasoning_content, out.content, len(out.runnable), out.lossless) == ("why", "I look.", 1, True)


def test_what_is_cut_off_or_broken_is_not_ok(parse):
    for body, status in (('{"q": "te', "unclosed_block"), ('{"q": }<|call|>', "invalid_json")):
        out = parse(f"{HEADS[0]}<|message|>{body}")
        assert [call.status for call in out.tool_calls] == [status]
        assert out.tool_calls[0].raw.endswith(body.removesuffix("<|call|>"))
    out = parse("<|channel|>analysis<|message|>why<|return|>")
    assert (out.reasoning_content, out.termination, out.reasoning_complete) == ("why", Termination.MALFORMED, False)


def test_a_chat_template_s_parser_is_learned_when_it_is_needed(monkeypatch):
    model = "Qwen/Qwen3-8B"
    if why := real_tokenizers.missing(model):
        pytest.skip(f"not proved: {why}")
    learnt, learn = [], learned.learn
    monkeypatch.setattr(learned, "learn", lambda *args: learnt.append(args) or learn(*args))
    tokenizer = real_tokenizers.load(model, name_or_path="another/name")
    renderer = resolve(model, tokenizer, backend="chat-template", parity="off")
    assert not learnt
    assert tokenizer.eos_token_id in renderer.get_stop_token_ids()
    assert len(learnt) == 1
