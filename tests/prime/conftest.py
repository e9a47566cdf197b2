"""Real models on the prime backend: which there are, and how each is resolved."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import real_tokenizers
import sampling
import served

from rllm_renderer_core import resolve


@dataclass(frozen=True)
class Model:
    """A model with a real vocabulary: how prime serves it, and under which family."""

    name: str
    family: str
    named: bool = False
    """Whether the family must be named, as upstream doesn't list this very model."""


MODELS = [
    Model("Qwen/Qwen3-8B", "qwen3"),
    Model("Qwen/Qwen3-4B-Instruct-2507", "qwen3"),
    Model("Qwen/Qwen3.5-9B", "qwen3.5"),
    Model("Qwen/Qwen3.5-0.8B", "qwen3.5"),
    Model("Qwen/Qwen3.6-35B-A3B", "qwen3.6"),
    Model("Qwen/Qwen3.8-27B", "qwen3.8"),
    Model("zai-org/GLM-4.5", "glm-4.5", named=True),
    Model("zai-org/GLM-5", "glm-5"),
    Model("zai-org/GLM-5.1", "glm-5.1"),
    Model("MiniMaxAI/MiniMax-M2", "minimax-m2"),
    Model("MiniMaxAI/MiniMax-M2.7", "minimax-m2", named=True),
    Model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3"),
    Model("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "nemotron-3"),
    Model("meta-llama/Llama-3.2-3B-Instruct", "llama-3"),
    Model("google/gemma-4-E2B-it", "gemma4"),
    Model("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
    Model("moonshotai/Kimi-K2.6", "kimi-k2.5"),
    Model("openai/gpt-oss-20b", "gpt-oss"),
]

SAME = {"qwen3.6": "qwen3.5", "qwen3.8": "qwen3.5", "glm-5": "glm-4.5", "glm-5.1": "glm-4.5"}
"""Families that write what another one writes: they are tested under ``--whole``."""


@functools.cache
def _tokenizer(name: str) -> Any:
    why = real_tokenizers.missing(name)
    if why:
        pytest.skip(why)
    return real_tokenizers.load(name)


def _resolved(name: str, **options: Any) -> Any:
    _tokenizer(name)
    model = {model.name: model for model in MODELS}.get(name)
    if model is not None and model.named:
        options.setdefault("renderer_family", model.family)
    try:
        return served.resolved(name, "prime", **options)
    except TypeError:  # options that have no hash
        return resolve(name, _tokenizer(name), backend="prime", parity="off", **options)


@pytest.fixture
def tokenizer_of() -> Callable[[str], Any]:
    """``tokenizer_of(model)``: the real tokenizer with its official template, or a skip that says what is missing."""
    return _tokenizer


@pytest.fixture
def prime() -> Callable[..., Any]:
    """``prime(model, **options)``: what ``resolve`` returns for it on the prime backend; made once for each set of options."""

    def prime(model: str, **options: Any) -> Any:
        return _resolved(model, **options)

    return prime


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    here = [model for model in MODELS if not real_tokenizers.missing(model.name)]
    models = sampling.one_each(here, lambda model: SAME.get(model.family, model.family))
    if "templated" in metafunc.fixturenames:  # gpt-oss's reference is harmony: see test_harmony.py
        models = [model for model in models if model.family != "gpt-oss"]
    for name in {"each", "templated"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, models, ids=lambda model: model.name.rpartition("/")[2])
