"""Control tokens of the format in the content: half a call, or a turn's opener, is no clean end, whichever backend reads it."""

from __future__ import annotations

import pytest
import shapes
from parse_formats import FORMATS, GLM, QWEN, TOOLS, served, xml

from rllm_renderer_core import Termination

ROLE = {QWEN: "<|im_start|>", GLM: "<|assistant|>"}
CASES = [*[case for case in FORMATS if case[1] in ROLE], ("tml", QWEN, xml)]
each = pytest.mark.parametrize(("backend", "model", "call"), CASES, ids=lambda each: getattr(each, "__name__", each))


def prompted(backend, model):
    """The renderer, its tokenizer, and a prompt that has closed the reasoning."""
    resolved, tokenizer = served(backend, model)
    prompt = resolved.render_ids([shapes.user("x")], tools=TOOLS, add_generation_prompt=True)
    return resolved, tokenizer, [*prompt, *shapes.encode(tokenizer, "</think>" if model == GLM else "\n</think>\n\n")]


@each
def test_a_stray_mark_is_no_clean_end(backend, model, call):
    resolved, tokenizer, prompt = prompted(backend, model)
    stop = resolved.get_stop_token_ids()[:1]
    opening, _, body = call(("path", "/tmp")).partition("<tool_call>")
    for begun, text in (("", f"hi {ROLE[model]} there"), ("", "hi</tool_call>there"), (opening + "<tool_call>", body)):
        behind = [*prompt, *shapes.encode(tokenizer, begun)]
        out = resolved.parse_response([*shapes.encode(tokenizer, text), *stop], tools=TOOLS, prompt_ids=behind)
        assert (out.termination, out.runnable) == (Termination.MALFORMED, []), text
        assert out.content.strip() and out.lossless


@each
def test_a_mark_that_ordinary_tokens_spell_is_text(backend, model, call):
    resolved, tokenizer, prompt = prompted(backend, model)
    stop = resolved.get_stop_token_ids()[:1]
    spelled = [token for part in ("<tool", "_call>", " it", " is") for token in shapes.encode(tokenizer, part)]
    for text, calls in (("", 0), (call(("path", "/tmp")), 1)):
        ids = [*spelled, *shapes.encode(tokenizer, text), *stop]
        out = resolved.parse_response(ids, tools=TOOLS, prompt_ids=prompt)
        if out.lossless:
            assert (out.termination, len(out.runnable)) == (Termination.STOP, calls), out
            assert out.content.strip() == "<tool_call> it is"
