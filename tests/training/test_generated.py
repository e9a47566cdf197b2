"""Generated conversations through ``supervised``, on each family of backends: contexts, targets and split as they must be.

Twelve conversations of one model a backend family; 200 of each of its models with ``--whole``.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rllm_renderer_training import SupervisedExample, supervised
from rllm_renderer_training.sequences import supervised as module
from rllm_renderer_training.sequences.example import SupervisedExamples
from rllm_renderer_training.sequences.runs import Runs
from rllm_renderer_training.sequences.targets import Targets
from sampling import how_many
from served import covers
from supervised_backends import served
from supervised_conversations import TOOLS, conversations

from rllm_renderer_core import RendererError

FAMILIES = {
    "prime": [
        "Qwen/Qwen3-8B",
        "Qwen/Qwen3.5-9B",
        "zai-org/GLM-5",
        "MiniMaxAI/MiniMax-M2.7",
        "meta-llama/Llama-3.2-3B-Instruct",
    ],
    "tinker": ["Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "deepseek-ai/DeepSeek-V3.1", "moonshotai/Kimi-K2.6"],
    "tml": ["Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3.1", "Qwen/Qwen3.5-9B", "moonshotai/Kimi-K2.6"],
    "fireworks": ["deepseek-ai/DeepSeek-V4-Flash", "MiniMaxAI/MiniMax-M2.7", "google/gemma-4-E2B-it", "zai-org/GLM-5.1"],
    "minimax-m3": ["MiniMaxAI/MiniMax-M3"],
    "chat-template": [
        "Qwen/Qwen3-8B",
        "Qwen/Qwen3-4B-Instruct-2507",
        "Qwen/Qwen3.5-9B",
        "Qwen/Qwen3.6-35B-A3B",
        "zai-org/GLM-5.2",
        "meta-llama/Llama-3.2-3B-Instruct",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "openai/gpt-oss-20b",
    ],
}
CASES = [
    pytest.param(backend, model, id=f"{backend}-{model.rpartition('/')[2]}")
    for backend, models in FAMILIES.items()
    for model in [model for model in models if covers(model, backend)][: how_many(1, 99)]
]


def with_runs(renderer: Any, learn_at: int, messages: Any, **options: Any) -> SupervisedExamples | str:
    """What ``supervised`` gives, or its error; successions of turns are learned when they come so often."""
    known = module._known.get(renderer)
    if known is None or known.learn_at != learn_at:
        module._known[renderer] = _RUNS.setdefault((id(renderer), learn_at), Runs(Targets(renderer), learn_at))
    try:
        return supervised(renderer, messages, **options)
    except RendererError as error:
        return f"{type(error).__name__}: {error}"


_RUNS: dict[tuple[int, int], Runs] = {}


def check(renderer: Any, messages: list[dict[str, Any]], tools: Any, got: SupervisedExamples) -> None:
    """Each trained run stands behind the rendered prompt, each turn is trained once or skipped, no two sequences are one."""
    spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    assert sorted([index for each in got for index in each.trained] + [each.index for each in got.skipped]) == spoken
    first: dict[int, list[int]] = {}
    for example in got:
        starts = runs(example)
        assert [example.message_indices[start] for start, _ in starts] == example.trained
        for (start, end), index in zip(starts, example.trained, strict=True):
            prompt = renderer.render_ids(messages[:index], tools=tools, add_generation_prompt=True)
            assert example.token_ids[:start] == prompt, index
            assert example.token_ids[end - 1] in renderer.get_stop_token_ids()
            first.setdefault(id(example), prompt)
    for before, after in itertools.pairwise(got):
        assert first[id(after)][: len(before.token_ids)] != before.token_ids, "these two could have been one"


def runs(example: SupervisedExample) -> list[tuple[int, int]]:
    trained = [bool(weight) for weight in example.weights]
    edges = [at for at in range(len(trained) + 1) if (at < len(trained) and trained[at]) != (at > 0 and trained[at - 1])]
    return list(zip(edges[::2], edges[1::2], strict=True))


@pytest.mark.parametrize(("backend", "model"), CASES)
def test_generated_conversations(backend: str, model: str) -> None:
    on = served(model, backend)
    if isinstance(on, str):
        pytest.skip(f"not proved for generated conversations: {on}")
    renderer, seen = on.renderer, {"trained": 0, "joined": 0}
    shows_tools = not isinstance(with_runs(renderer, 1, [{"role": "user", "content": "x"}], tools=TOOLS), str)
    calls = not model.startswith("openai/") and renderer.name != "llama3"

    @settings(
        max_examples=how_many(12, 200),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(conversations(calls=calls), st.booleans())
    def each(messages: list[dict[str, Any]], declared: bool) -> None:
        tools = TOOLS if declared and shows_tools else None
        once = with_runs(renderer, 10**9, messages, tools=tools, unreachable="skip")
        got = with_runs(renderer, 1, messages, tools=tools, unreachable="skip")
        assert got == once and getattr(got, "skipped", None) == getattr(once, "skipped", None)
        if isinstance(got, str):
            return
        check(renderer, messages, tools, got)
        seen["trained"] += sum(len(example.trained) for example in got)
        seen["joined"] += sum(len(example.trained) - 1 for example in got)

    each()
    assert seen["trained"] >= 10, seen
