"""``supervised`` on real models: each turn against the official text of what serving renders, on every backend that covers it.

A few models of different formats; ``--whole`` takes all of them on every backend that covers them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import supervised_oracle as oracle
from rllm_renderer_training import UnreachableTurnError, supervised
from rllm_renderer_training.sequences.supervised import runs_of
from served import pairs
from supervised_backends import BACKENDS, Served, served, tools_on

FEW = [
    ("Qwen/Qwen3-8B", "prime"),
    ("Qwen/Qwen3-8B", "tinker"),
    ("Qwen/Qwen3.5-9B", "prime"),
    ("deepseek-ai/DeepSeek-V3.1", "tinker"),
    ("zai-org/GLM-5", "prime"),
    ("MiniMaxAI/MiniMax-M2.7", "chat-template"),
    ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
    ("deepseek-ai/DeepSeek-V4-Flash", "fireworks"),
    ("openai/gpt-oss-20b", "prime"),
    ("meta-llama/Llama-3.2-3B-Instruct", "chat-template"),
    ("google/gemma-4-E2B-it", "prime"),
]
"""Formats that differ in how a turn opens, ends and is rendered again later."""


@pytest.fixture(params=pairs(FEW, BACKENDS), ids=lambda pair: f"{pair[0].rpartition('/')[2]} on {pair[1]}")
def on(request: pytest.FixtureRequest) -> Served:
    found = served(*request.param)
    if isinstance(found, str):
        pytest.skip(f"supervised sequences aren't proved: {found}")
    return found


def turns_of(on: Served, messages: Any, tools: Any) -> list[oracle.Turn]:
    """The official turns; those whose stop the renderer doesn't know can't be reached with it."""
    stops = on.renderer.get_stop_token_ids()
    return [
        turn
        if turn.completion is None or turn.completion[-1] in stops
        else dataclasses.replace(turn, completion=None, why="the renderer lacks the format's stop")
        for turn in oracle.turns(on.tokenizer, on.text_of, on.model, messages, tools)
    ]


def test_each_turn_is_behind_its_own_prompt_or_unreachable_where_the_format_forbids_it(on: Served) -> None:
    exact = 0
    for name, (messages, declared) in oracle.conversations(on.model, on.renderer.name).items():
        tools = tools_on(on, declared)
        for turn in turns_of(on, messages, tools):
            if turn.completion is None:
                with pytest.raises(UnreachableTurnError) as raised:
                    runs_of(on.renderer).targets.target(messages, turn.index, tools)
                assert raised.value.index == turn.index, (name, turn.why)
                continue
            got = runs_of(on.renderer).targets.target(messages, turn.index, tools)
            assert got.prompt.token_ids == list(turn.prompt), (name, turn.index)
            assert got.completion == list(turn.completion), (name, turn.index)
            exact += 1
    assert exact >= 2, "a format that can say nothing proves nothing"


def test_the_sequences_are_the_fewest_and_train_each_turn_once(on: Served) -> None:
    for name, (messages, declared) in oracle.conversations(on.model, on.renderer.name).items():
        tools = tools_on(on, declared)
        wanted = oracle.sequences(turns_of(on, messages, tools))
        got = supervised(on.renderer, messages, tools=tools, unreachable="skip")
        assert [(each.token_ids, [bool(weight) for weight in each.weights]) for each in got] == wanted, name
        for example in got:
            assert len(example.message_indices) == len(example.token_ids)
            for index, weight in zip(example.message_indices, example.weights, strict=True):
                assert not weight or index in example.trained


def test_skipped_turns_say_why(on: Served) -> None:
    messages, _ = oracle.CONVERSATIONS["reasoning"]
    turns = turns_of(on, messages, None)
    got: Any = supervised(on.renderer, messages, unreachable="skip")
    assert [each.index for each in got.skipped] == [turn.index for turn in turns if turn.completion is None]
    assert all(f"message {each.index}" in each.reason for each in got.skipped)
