"""Which message each id belongs to, and which ids the model would have sampled."""

from __future__ import annotations

import m3_strategies as strategies
import m3_tokenizer as m3
import pytest
from hypothesis import HealthCheck, given, settings
from sampling import how_many

tokenizer = m3.load()
CONVERSATION = [
    {"role": "root", "content": "Root."},
    {"role": "developer", "content": "Dev.\n"},
    {"role": "user", "content": "\nhi "},
    {"role": "assistant", "content": "Look.", "reasoning_content": "why", "tool_calls": [m3.call("look", {"q": 1})] * 2},
    {"role": "tool", "content": "A\n"},
    {"role": "tool", "content": "\u0338B"},
    {"role": "assistant", "content": "Done.\n"},
]
CALL = ']<]minimax[>[<invoke name="look">]<]minimax[>[<q>1]<]minimax[>[</q>]<]minimax[>[</invoke>\n'
CALLS = f"]<]minimax[>[<tool_call>\n{CALL}{CALL}]<]minimax[>[</tool_call>"
OPENERS = {"adaptive": "", "enabled": "<mm:think>", "disabled": "</mm:think>"}


def text_where(rendered, keep):
    return tokenizer.decode([token for at, token in enumerate(rendered.token_ids) if keep(at)], skip_special_tokens=False)


def test_each_message_owns_its_turn():
    rendered = m3.renderer().render(CONVERSATION, add_generation_prompt=True)
    owned = [text_where(rendered, lambda at, i=i: rendered.message_indices[at] == i) for i in range(-1, len(CONVERSATION))]
    assert owned[0] == "]~b]ai\n"
    assert owned[1].startswith("]~!b[]~b]system\nRoot.\n\n<thinking_instructions>") and owned[1].endswith("[e~[\n")
    assert owned[2:] == [
        "]~b]developer\nDev.\n[e~[\n",
        "]~b]user\n\nhi [e~[\n",
        f"]~b]ai\n<mm:think>why</mm:think>Look.{CALLS}[e~[\n",
        "]~b]tool\n<response>A\n</response>\n",
        "<response\u226fB</response>[e~[\n",
        "]~b]ai\n</mm:think>Done.\n[e~[\n",
    ]


def test_what_nobody_wrote_belongs_to_none():
    rendered = m3.renderer().render([{"role": "user", "content": "hi"}])
    assert text_where(rendered, lambda at: rendered.message_indices[at] == 0) == "]~b]user\nhi[e~[\n"
    assert text_where(rendered, lambda at: rendered.message_indices[at] == -1).endswith(
        "developer\nYou are a helpful assistant.[e~[\n"
    )


@pytest.mark.parametrize("mode", OPENERS)
def test_sampled_is_what_follows_the_opener_up_to_the_stop(mode):
    rendered = m3.renderer(thinking_mode=mode).render(CONVERSATION, add_generation_prompt=True)
    first, second = f"<mm:think>why</mm:think>Look.{CALLS}[e~[", "</mm:think>Done.\n[e~["
    expected = first.removeprefix(OPENERS[mode]) + second.removeprefix(OPENERS[mode])
    assert text_where(rendered, lambda at: rendered.sampled_mask[at]) == expected


@settings(
    max_examples=how_many(37, 300), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(strategies.conversations(strategies.any_text), strategies.tools, strategies.options)
def test_invariants(messages, tools, keywords):
    for marker_text in ("plain", "template"):
        subject = m3.renderer(**keywords, marker_text=marker_text)
        rendered = subject.render(messages, tools=tools, add_generation_prompt=True)
        assert rendered.token_ids == subject.render_ids(messages, tools=tools, add_generation_prompt=True)
        assert len(rendered.token_ids) == len(rendered.message_indices) == len(rendered.sampled_mask)
        own = [index for index in rendered.message_indices if index >= 0]
        assert own == sorted(own)
        for index, sampled in zip(rendered.message_indices, rendered.sampled_mask, strict=True):
            assert not sampled or messages[index]["role"] == "assistant"
