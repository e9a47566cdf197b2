"""What a message says and its format doesn't write: the turn is refused, whatever words it happens to have."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import shapes
import supervised_oracle as oracle
from rllm_renderer_training import UnreachableTurnError, supervised
from rllm_renderer_training.sequences.omitted_parts import doubtful
from supervised_backends import Served, on

from rllm_renderer_core import resolve

ASKED = [shapes.user("Two and two?")]


def said(content: str | None, **keys: Any) -> list[dict[str, Any]]:
    return [*ASKED, {"role": "assistant", "content": content, **keys}]


LONG = "They asked for apples, so I look them up."


@pytest.mark.parametrize(
    "messages",
    [
        said("It's 4.", reasoning_content="4"),  # in the answer
        said("Four.", reasoning_content="eot_id"),  # in what the format itself writes
        said("", reasoning_content="look", tool_calls=[oracle.call("look", 0, "apples")]),  # in the call's name
        said("", reasoning_content=LONG, tool_calls=[oracle.call("look", 0, LONG)]),  # in an argument
    ],
)
def test_reasoning_that_the_format_drops_is_missed_even_where_its_words_are_elsewhere(
    llama: Served, messages: list[dict[str, Any]]
) -> None:
    with pytest.raises(UnreachableTurnError, match="leaves out its reasoning"):
        supervised(llama.renderer, messages, tools=shapes.TOOLS)


@pytest.mark.parametrize("ascii", [True, False])
def test_an_argument_with_escapes_has_the_reasonings_words_where_the_format_writes_it_plain(ascii: bool) -> None:
    thought = 'They asked for "Äpfel", so I look them up.'
    calls = [{"type": "function", "function": {"name": "look", "arguments": json.dumps({"q": thought}, ensure_ascii=ascii)}}]
    message = {"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": calls}
    shown = f"<function=look><parameter=q>{thought}</parameter></function>"
    assert [part.name for part in doubtful(message, shown)] == ["reasoning"]
    assert not [*doubtful({**message, "tool_calls": []}, f"<think>{thought}</think>")]


def test_reasoning_whose_words_are_elsewhere_is_trained_where_the_format_has_it(qwen: Served) -> None:
    for _ in range(3):  # kinds of turns are learned at the second
        (example,) = supervised(qwen.renderer, said("It's 4.", reasoning_content="4"))
        assert shown(qwen, example) == "<think>\n4\n</think>\n\nIt's 4.<|im_end|>"


def shown(each: Served, example: Any) -> str:
    return str(each.tokenizer.decode([t for t, weight in zip(example.token_ids, example.weights, strict=True) if weight]))


THOUGHT = "I add them."
DETAILS = [{"type": "reasoning.text", "text": THOUGHT}, {"type": "reasoning.encrypted", "data": "x"}]


@pytest.mark.parametrize(
    ("keys", "fix"),
    [
        ({"function_call": {"name": "look", "arguments": '{"q": "x"}'}}, "tool_calls"),
        ({"refusal": "I won't."}, "content"),
        ({"thinking": THOUGHT}, "reasoning_content"),
        ({"thinking_blocks": [{"type": "thinking", "thinking": THOUGHT}]}, "reasoning_content"),
        ({"reasoning_details": DETAILS}, "reasoning_content"),
        ({"reasoning_details": DETAILS, "reasoning": "Something else."}, "reasoning_content"),
        ({"audio": {"id": "audio_1"}}, "weight 0"),
    ],
)
def test_what_a_message_says_under_another_key_is_unreachable_or_skipped(qwen: Served, keys: dict[str, Any], fix: str) -> None:
    for content in (None, "Four."):
        for _ in range(3):
            with pytest.raises(UnreachableTurnError, match=f"leaves out its {next(iter(keys))}") as raised:
                supervised(qwen.renderer, said(content, **keys))
            assert raised.value.index == 1 and fix in str(raised.value.fix)
    got = supervised(qwen.renderer, [*said(None, **keys), *said("Four.")], unreachable="skip")
    assert [each.index for each in got.skipped] == [1] and [each.trained for each in got] == [[3]]


@pytest.mark.parametrize(
    "keys",
    [
        {"reasoning": THOUGHT, "reasoning_details": DETAILS},
        {"reasoning": THOUGHT, "reasoning_details": DETAILS[1:]},
        {"reasoning_content": THOUGHT, "thinking": THOUGHT},
        {"reasoning_content": THOUGHT, "thinking_blocks": [{"type": "thinking", "thinking": f"{THOUGHT}\n"}]},
        {"reasoning_content": THOUGHT, "refusal": "", "function_call": {"name": None, "arguments": None}, "thinking": True},
    ],
)
def test_what_says_the_same_once_more_or_nothing_is_no_loss(qwen: Served, keys: dict[str, Any]) -> None:
    (example,) = supervised(qwen.renderer, said("Four.", **keys))
    assert shown(qwen, example) == f"<think>\n{THOUGHT}\n</think>\n\nFour.<|im_end|>"


def test_a_key_that_the_template_reads_is_trained() -> None:
    each = on("openai/gpt-oss-20b")
    messages = said("", thinking=THOUGHT, tool_calls=[oracle.call("look", 0, "apples")])
    (example,) = supervised(each.renderer, messages, tools=shapes.TOOLS)
    assert THOUGHT in shown(each, example)


CALLS_ALONE = """{%- for m in messages -%}<|im_start|>{{ m.role }}
{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}{{ c.function.arguments | tojson }}</tool_call>{% endfor -%}
{% if not m.tool_calls %}{{ m.content }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def test_a_text_that_the_format_drops_is_missed_even_where_its_words_are_in_an_argument(qwen: Served) -> None:
    tokenizer = copy.copy(qwen.tokenizer)
    tokenizer.chat_template = CALLS_ALONE
    renderer = resolve("some/model", tokenizer, backend="chat-template", parity="off")
    calling = said("apples", tool_calls=[oracle.call("look", 0, "apples")])
    with pytest.raises(UnreachableTurnError, match=r"message 1\b.* text"):
        supervised(renderer, calling)
