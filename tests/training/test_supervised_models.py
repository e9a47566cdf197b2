"""``supervised`` on real models: each turn against the official text of what serving renders, on every backend that covers it.

By default a few models of different formats; ``--whole`` takes all of tests/support/real_tokenizers.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import real_tokenizers
import sampling
import supervised_oracle as oracle
from rllm_renderer_training import UnreachableTurnError, supervised
from rllm_renderer_training.sequences.supervised import targets_of
from supervised_backends import BACKENDS, Served, served, tools_on

SOME = [
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3.5-9B",
    "deepseek-ai/DeepSeek-V3.1",
    "deepseek-ai/DeepSeek-V4-Flash",
    "zai-org/GLM-5",
    "MiniMaxAI/MiniMax-M2.7",
    "MiniMaxAI/MiniMax-M3",
    "openai/gpt-oss-20b",
    "meta-llama/Llama-3.2-3B-Instruct",
    "google/gemma-4-E2B-it",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
]
"""Formats that differ in how a turn opens, ends and is rendered again later."""


@pytest.fixture(params=sampling.chosen(real_tokenizers.here(), SOME), ids=lambda model: model.rpartition("/")[2])
def model(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=BACKENDS)
def on(request: pytest.FixtureRequest, model: str) -> Served:
    found = served(model, request.param)
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
                    targets_of(on.renderer).target(messages, turn.index, tools)
                assert raised.value.index == turn.index, (name, turn.why)
                continue
            got = targets_of(on.renderer).target(messages, turn.index, tools)
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
