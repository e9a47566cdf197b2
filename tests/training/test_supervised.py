"""``supervised``: what is trained, with what weight, in which sequence, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
import real_tokenizers
import shapes
import supervised_oracle as oracle
from rllm_renderer_training import Rollout, SupervisedExample, UnreachableTurnError, supervised
from supervised_backends import Served, on, tools_on

from rllm_renderer_core import BridgeDeclined, MessageError, OptionError, resolve

PLAIN, _ = oracle.CONVERSATIONS["plain"]
REASONED, _ = oracle.CONVERSATIONS["reasoning"]
CYCLE, _ = oracle.CONVERSATIONS["tool cycle"]


def with_keys(**keys: dict[int, Any]) -> list[dict[str, Any]]:
    return [{**message, **{key: of[index] for key, of in keys.items() if index in of}} for index, message in enumerate(PLAIN)]


def texts(each: Served, example: SupervisedExample) -> str:
    """What is trained, as text."""
    kept = [token for token, weight in zip(example.token_ids, example.weights, strict=True) if weight]
    return each.tokenizer.decode(kept)


# What is trained


def test_one_sequence_where_history_stays_as_it_was_said(llama: Served) -> None:
    (example,) = supervised(llama.renderer, PLAIN)
    assert example.trained == [2, 4]
    assert texts(llama, example) == "Four apples.<|eot_id|>Two lids.<|eot_id|>"
    assert example.token_ids == llama.renderer.render_ids(PLAIN)


def test_a_sequence_a_query_where_the_template_renders_old_turns_anew(qwen: Served) -> None:
    got = supervised(qwen.renderer, REASONED)
    assert [each.trained for each in got] == [[2], [4], [6]]
    assert "<think>" in got[1].reason and "message 4" in got[1].reason


def test_a_tool_cycle_is_one_sequence(qwen: Served) -> None:
    got = supervised(qwen.renderer, CYCLE, tools=shapes.TOOLS)
    assert [each.trained for each in got] == [[2, 4, 6], [8]]


@pytest.mark.parametrize(("train", "trained"), [("all", [2, 4]), ("last", [4]), ("last_turn", [4])])
def test_train_chooses_turns(llama: Served, train: str, trained: list[int]) -> None:
    (example,) = supervised(llama.renderer, PLAIN, train=train)
    assert example.trained == trained


def test_the_last_turn_is_all_behind_the_last_user_message(qwen: Served) -> None:
    (example,) = supervised(qwen.renderer, CYCLE[:-2], tools=shapes.TOOLS, train="last_turn")
    assert example.trained == [2, 4, 6]


def test_nothing_to_train_gives_nothing(llama: Served) -> None:
    assert supervised(llama.renderer, PLAIN[:2]) == []
    assert supervised(llama.renderer, with_keys(weight={2: 0, 4: 0})) == []


def test_the_sequence_ends_with_the_last_trained_id(llama: Served) -> None:
    (example,) = supervised(llama.renderer, [*PLAIN, shapes.user("Thanks.")])
    assert example.weights[-1] == 1.0 and example.token_ids == llama.renderer.render_ids(PLAIN)


# Weights of the data set


@pytest.mark.parametrize("key", ["weight", "trainable", "loss_mask"])
def test_a_message_left_out_is_context(llama: Served, key: str) -> None:
    (example,) = supervised(llama.renderer, with_keys(**{key: {2: 0}}))
    assert example.trained == [4]
    assert example.token_ids == llama.renderer.render_ids(PLAIN)


def test_a_float_weighs_the_turn(llama: Served) -> None:
    (example,) = supervised(llama.renderer, with_keys(weight={2: 0.25, 4: 1}))
    assert sorted(set(example.weights)) == [0.0, 0.25, 1.0]
    with pytest.raises(ValueError, match="labels can't carry weights"):
        example.columns()


def test_keys_that_agree_are_one_weight(llama: Served) -> None:
    (example,) = supervised(llama.renderer, with_keys(weight={2: 1}, trainable={2: True}, loss_mask={0: 0, 2: None}))
    assert example.trained == [2, 4]


@pytest.mark.parametrize(
    ("keys", "index", "said"),
    [
        ({"weight": {2: 1}, "trainable": {2: False}}, 2, "disagree"),
        ({"weight": {2: -1}}, 2, "from 0 on"),
        ({"weight": {2: float("nan")}}, 2, "finite"),
        ({"loss_mask": {4: [1, 0]}}, 4, "loss_mask"),
        ({"trainable": {1: True}}, 1, "only what an assistant samples"),
    ],
)
def test_weights_that_make_no_sense_are_refused(llama: Served, keys: dict[str, Any], index: int, said: str) -> None:
    with pytest.raises(MessageError, match=said) as raised:
        supervised(llama.renderer, with_keys(**keys))
    assert raised.value.index == index


@pytest.mark.parametrize(
    "option", [{"train": "some"}, {"history": "kept"}, {"unreachable": "drop"}, {"parts": ["stop"]}, {"parts": []}]
)
def test_options_that_arent_known_are_refused(llama: Served, option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(option))):
        supervised(llama.renderer, PLAIN, **option)


# What can't be reached


def test_reasoning_that_the_format_drops_is_unreachable(llama: Served) -> None:
    with pytest.raises(UnreachableTurnError, match="leaves out its reasoning") as raised:
        supervised(llama.renderer, REASONED)
    assert raised.value.index == 2
    assert pickle.loads(pickle.dumps(raised.value)).index == 2


def test_reasoning_in_a_mode_that_closed_it_is_unreachable_with_both_texts() -> None:
    model = "Qwen/Qwen3.5-0.8B"
    if real_tokenizers.missing(model):
        pytest.skip(str(real_tokenizers.missing(model)))
    each = on(model)
    with pytest.raises(UnreachableTurnError, match="doesn't go on from its own prompt") as raised:
        supervised(each.renderer, REASONED)
    assert "</think>" in raised.value.prompt_text and "Two and two." in raised.value.turn_text


def test_no_user_message_is_unreachable_where_the_template_refuses() -> None:
    with pytest.raises(UnreachableTurnError, match="message 1"):
        supervised(on("Qwen/Qwen3.5-9B").renderer, [oracle.SYSTEM, oracle.assistant("Hello.")])


def test_an_assistant_that_speaks_first_is_unreachable(llama: Served) -> None:
    greeting = [oracle.assistant("Hello."), *PLAIN[1:]]
    with pytest.raises(UnreachableTurnError, match="is the first one"):
        supervised(llama.renderer, greeting)
    got = supervised(llama.renderer, greeting, unreachable="skip")
    assert [each.index for each in got.skipped] == [0] and [each.trained for each in got] == [[2, 4]]


def test_a_stop_spelled_in_the_text_is_unreachable(llama: Served) -> None:
    spelled = [*PLAIN[:2], oracle.assistant("Four<|eot_id|>apples")]
    with pytest.raises(UnreachableTurnError, match="more than one stop"):
        supervised(llama.renderer, spelled)


def test_skipped_turns_leave_the_others(qwen: Served) -> None:
    messages = [*PLAIN[:2], oracle.assistant("Four<|im_end|>apples"), *PLAIN[3:]]
    got = supervised(qwen.renderer, messages, unreachable="skip")
    assert [each.index for each in got.skipped] == [2] and [each.trained for each in got] == [[4]]


# Where ids merge


def test_an_opener_that_merges_with_the_turn_is_kept_id_for_id() -> None:
    """CASES 02: ``<think>\\n`` and an empty reasoning's newline are other ids together; the prompt's ids stay."""
    each = on("Qwen/Qwen3.5-9B")
    (example,) = supervised(each.renderer, PLAIN[:3])
    prompt = each.renderer.render_ids(PLAIN[:2], add_generation_prompt=True)
    assert example.token_ids[: len(prompt)] == prompt
    assert texts(each, example) == "\n</think>\n\nFour apples.<|im_end|>"
    assert example.token_ids != each.renderer.render_ids(PLAIN[:3])[: len(example.token_ids)]


# Parts


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ({"reasoning"}, "<think>\nI look.\n</think>\n\n"),
        ({"content"}, "Looking.\n"),  # the full stop and the newline behind it are one id
        ({"tool_calls"}, '<tool_call>\n{"name": "look", "arguments": {"q": "apples"}}\n</tool_call><|im_end|>'),
    ],
)
def test_parts_of_a_turn(qwen: Served, parts: set[str], kept: str) -> None:
    turn = oracle.assistant("Looking.", reasoning="I look.", calls=[oracle.call("look", 0, "apples")])
    (example,) = supervised(qwen.renderer, [*PLAIN[:2], turn], tools=shapes.TOOLS, parts=parts)
    assert texts(qwen, example) == kept


def test_all_parts_are_the_whole_turn(qwen: Served) -> None:
    turn = oracle.assistant("Looking.", reasoning="I look.", calls=[oracle.call("look", 0, "apples")])
    whole = supervised(qwen.renderer, [*PLAIN[:2], turn], tools=shapes.TOOLS)
    assert (
        supervised(qwen.renderer, [*PLAIN[:2], turn], tools=shapes.TOOLS, parts=["reasoning", "content", "tool_calls"]) == whole
    )
    (example,) = whole
    each_part = [
        supervised(qwen.renderer, [*PLAIN[:2], turn], tools=shapes.TOOLS, parts=[part])[0]
        for part in ("reasoning", "content", "tool_calls")
    ]
    summed = [
        sum(weights)
        for weights in zip(*[[*e.weights, *[0.0] * (len(example.weights) - len(e.weights))] for e in each_part], strict=True)
    ]
    assert summed == example.weights


def test_calls_without_text_take_the_turn_behind_the_reasoning(qwen: Served) -> None:
    (example,) = supervised(qwen.renderer, CYCLE[:3], tools=shapes.TOOLS, parts=["tool_calls"])
    assert texts(qwen, example).startswith("<tool_call>") and texts(qwen, example).endswith("<|im_end|>")


def test_a_turn_without_such_a_part_isnt_trained() -> None:
    """A turn of text alone, and behind it in the same sequence one with a call."""
    each = on("Qwen/Qwen3-4B-Instruct-2507")
    calling = oracle.assistant("", calls=[oracle.call("look", 0, "apples")])
    messages = [*PLAIN[:3], shapes.user("Look."), calling]
    assert supervised(each.renderer, messages, tools=shapes.TOOLS)[0].trained == [2, 4]
    (example,) = supervised(each.renderer, messages, tools=shapes.TOOLS, parts=["tool_calls"])
    assert example.trained == [4] and texts(each, example).startswith("<tool_call>")


CALLS_FIRST = """{%- for m in messages -%}<|im_start|>{{ m.role }}
{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}{{ c.function.arguments | tojson }}</tool_call>{% endfor -%}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def test_parts_that_the_format_mixes_are_refused(qwen: Served) -> None:
    tokenizer = copy.copy(qwen.tokenizer)
    tokenizer.chat_template = CALLS_FIRST
    renderer = resolve("some/model", tokenizer, backend="chat-template", parity="off")
    turn = oracle.assistant("Looking.", calls=[oracle.call("look", 0, "apples")])
    assert supervised(renderer, [*PLAIN[:2], turn])[0].trained == [2]
    with pytest.raises(OptionError, match="can't be told apart"):
        supervised(renderer, [*PLAIN[:2], turn], parts=["content"])


# As data


def test_columns_are_transformers_and_trls(llama: Served) -> None:
    (example,) = supervised(llama.renderer, PLAIN)
    columns = example.columns()
    assert set(columns) == {"input_ids", "labels", "attention_mask", "assistant_masks"}
    assert columns["input_ids"] == example.token_ids
    for token, label, mask, weight in zip(
        columns["input_ids"], columns["labels"], columns["assistant_masks"], example.weights, strict=True
    ):
        assert label == (token if weight else -100) and mask == int(bool(weight))


def test_plain_data_and_back(llama: Served) -> None:
    (example,) = supervised(llama.renderer, PLAIN)
    assert SupervisedExample.from_dict(json.loads(json.dumps(example.to_dict()))) == example


def test_attribution_where_the_backend_has_it() -> None:
    each = on("meta-llama/Llama-3.2-3B-Instruct", "prime")
    (example,) = supervised(each.renderer, PLAIN)
    for index, content in ((1, "How many apples?"), (2, "Four apples."), (3, "And lids?")):
        own = [token for token, at in zip(example.token_ids, example.message_indices, strict=True) if at == index]
        assert content in each.tokenizer.decode(own)


# Verbatim history: what a bridged rollout keeps


def rollout_of(renderer: Any, messages: list[dict[str, Any]], tools: Any) -> tuple[Rollout, list[int]]:
    """A rollout that samples the conversation's own turns, and the trained turns by the sequences of ``supervised``."""
    spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    singles = {
        index: supervised(
            renderer,
            [{**m, "weight": float(at == index)} if m["role"] == "assistant" else m for at, m in enumerate(messages)],
            tools=tools,
        )[0]
        for index in spoken
    }
    rollout = Rollout(renderer)
    prompt = rollout.begin(messages[: spoken[0]], tools=tools)
    for at, index in enumerate(spoken):
        single = singles[index]
        start = single.weights.index(1.0)
        shown = rollout.record(single.token_ids[start:]).tool_calls
        # The data set's ids aren't those that the rollout showed: a result answers the call at the same place.
        calls = messages[index].get("tool_calls") or []
        assert [call.name for call in shown] == [call["function"]["name"] for call in calls]
        ids = {call["id"]: own.id for call, own in zip(calls, shown, strict=True)}
        if at + 1 < len(spoken):
            new = messages[index + 1 : spoken[at + 1]]
            prompt = rollout.extend([{**m, "tool_call_id": ids[m["tool_call_id"]]} if m["role"] == "tool" else m for m in new])
    return rollout, prompt


@pytest.mark.parametrize("name", ["plain", "reasoning", "mixed", "tool cycle", "parallel calls"])
@pytest.mark.parametrize(
    ("model", "backend"),
    [
        ("Qwen/Qwen3-8B", "prime"),
        ("Qwen/Qwen3.5-9B", "prime"),
        ("Qwen/Qwen3.5-9B", "tinker"),
        ("zai-org/GLM-5.1", "prime"),
        ("deepseek-ai/DeepSeek-V4-Flash", "fireworks"),
        ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
        ("openai/gpt-oss-20b", "tinker"),
    ],
)
def test_verbatim_is_what_a_rollout_keeps(model: str, backend: str, name: str) -> None:
    each = on(model, backend)
    if name not in oracle.conversations(model, each.renderer.name):
        pytest.skip(f"{model}'s format doesn't have this conversation")
    messages, declared = oracle.CONVERSATIONS[name]
    tools = tools_on(each, declared)
    if model.startswith("openai/") and name == "tool cycle":
        # Once the final answer is there, harmony drops the reasoning of the calls before it: its text has no such turn.
        with pytest.raises(UnreachableTurnError, match="doesn't go on from its own prompt") as raised:
            supervised(each.renderer, messages, tools=tools, history="verbatim")
        assert raised.value.index == 6
        return
    got = supervised(each.renderer, messages, tools=tools, history="verbatim")
    rollout, _ = rollout_of(each.renderer, messages, tools)
    wanted = [(segment.token_ids, segment.sampled_mask) for segment in rollout.segments]
    assert [(e.token_ids, [bool(weight) for weight in e.weights]) for e in got] == wanted
    assert [e.reason for e in got[1:]] == [decline.reason for decline in rollout.declines]


def test_verbatim_keeps_reasoning_in_one_sequence(qwen: Served) -> None:
    assert [each.trained for each in supervised(qwen.renderer, REASONED, history="verbatim")] == [[2, 4, 6]]


def test_verbatim_without_a_bridge_says_why() -> None:
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
    renderer = resolve("Qwen/Qwen3-8B", tokenizer, backend="chat-template", template_bridge=False, parity="off")
    got = supervised(renderer, REASONED, history="verbatim")
    declined = renderer.try_bridge([1], [renderer.get_stop_token_ids()[0]], [shapes.user("x")])
    assert isinstance(declined, BridgeDeclined)
    assert [each.trained for each in got] == [[2], [4], [6]]
    assert all(each.reason == declined.reason for each in got[1:])
