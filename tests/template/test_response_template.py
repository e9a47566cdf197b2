"""What was learned as transformers' response template: written, and read by transformers' own engine on generated turns."""

from __future__ import annotations

import collections
import json

import pytest
import real_tokenizers
from generated_turns import TOOLS, Template, drawn
from rllm_renderer_template.chat_template.response_template import NEEDS, engine, said
from rllm_renderer_template.chat_template.template_parser import learned_parser
from rllm_renderer_template.parser.calls.attempt import Declined

from rllm_renderer_core import Termination, resolve

ONE_OF_EACH_KIND = ("Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "zai-org/GLM-5", "MiniMaxAI/MiniMax-M2", "moonshotai/Kimi-K2.6")


def loaded(model):
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    return tokenizer, learned_parser(tokenizer, {}, [tokenizer.eos_token_id])


@pytest.mark.parametrize("model", ONE_OF_EACH_KIND)
def test_the_engine_reads_generated_turns_by_it(model):
    if engine() is None:
        pytest.skip(f"not proved with this transformers: {NEEDS}")
    tokenizer, parser = loaded(model)
    tokenizer.response_template = json.loads(json.dumps(parser.response_template()))
    template, found = Template(tokenizer), collections.Counter()
    for before, ids, shown, _ in template.completions(drawn(model, 60), parser.stop_ids):
        read = said(tokenizer.parse_response(ids, prefix=before, tools=TOOLS)).comparable
        wanted = said(
            {
                "reasoning_content": shown.reasoning,
                "content": shown.content,
                "tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in shown.calls],
            }
        ).comparable
        found[read == wanted] += 1
    assert found[True] >= 0.95 * found.total() > 20, found


def test_without_the_engine_nothing_is_written():
    if engine() is not None:
        pytest.skip("not proved with this transformers: it has the engine")
    _, parser = loaded("Qwen/Qwen3-8B")
    with pytest.raises(Declined, match=r"5\.13"):
        parser.response_template()


@pytest.mark.parametrize(
    ("model", "why"),
    [("MiniMaxAI/MiniMax-M3", "one way"), ("google/gemma-4-E2B-it", "notation"), ("openai/gpt-oss-20b", "opens a call")],
)
def test_what_a_template_cannot_say_is_declined_with_the_reason(model, why):
    _, parser = loaded(model)
    with pytest.raises(Declined, match=why):
        parser.response_template()


def test_a_template_that_the_checkpoint_ships_reads_its_turns_where_it_is_proven():
    if engine() is None:
        pytest.skip(f"not proved with this transformers: {NEEDS}")
    tokenizer, parser = loaded("Qwen/Qwen3-8B")
    own = parser.response_template()
    calls = {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"code": "1 < 2"}'}}]}
    turn = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "", **calls}]
    for shipped, used in ((own, True), (own | {"fields": own["fields"] | {"tool_calls": {"open": "<call>"}}}, False)):
        tokenizer.response_template = shipped
        renderer = resolve("Qwen/Qwen3-8B", tokenizer, backend="chat-template", parity="off")
        assert (renderer.upstream.shipped is not None) is used
        prompt = renderer.render_ids(turn[:1], tools=TOOLS, add_generation_prompt=True)
        ids = list(renderer.render_ids(turn, tools=TOOLS))[len(prompt) :]
        ids = ids[: ids.index(tokenizer.eos_token_id) + 1]
        whole, cut = (renderer.parse_response(each, tools=TOOLS, prompt_ids=prompt) for each in (ids, ids[:-4]))
        assert [call.arguments for call in whole.runnable] == [{"code": "1 < 2"}] and whole.lossless
        assert not cut.runnable and cut.termination is Termination.TRUNCATED
