"""Nothing is found that isn't equal: every tokenizer against every renderer, and templates with one changed character."""

from __future__ import annotations

import copy
import importlib.util
import re

import pytest
import real_tokenizers
import served
from rllm_renderer_template.parity.comparison import Budget
from rllm_renderer_template.parity.detection import detect, try_all
from sampling import WHOLE

from rllm_renderer_core.plugin import Query
from rllm_renderer_core.plugin.discovery import load_backends

pytest.importorskip("rllm_renderer_prime")
pytest.importorskip("renderers")
pytest.importorskip("transformers")

RIGHT = {
    "Qwen/Qwen3-8B": {"prime:qwen3", "tinker:qwen3", "tml:Qwen3"},
    "Qwen/Qwen3-4B-Instruct-2507": {"prime:qwen3", "tinker:qwen3_instruct", "tml:Qwen3.instruct"},
    "Qwen/Qwen3.5-9B": {"prime:qwen3.5", "tinker:qwen3_5", "fireworks:qwen3_5", "tml:Qwen35"},
    "Qwen/Qwen3.5-0.8B": {"prime:qwen3.5", "tinker:qwen3_5_disable_thinking", "tml:Qwen35.disable_thinking"},
    "Qwen/Qwen3.6-35B-A3B": {"prime:qwen3.6", "fireworks:qwen3_6", "fireworks:qwen3_6_interleaved"},
    "Qwen/Qwen3.8-27B": {
        "tinker:qwen3_8_xhigh_reasoning",
        "prime:qwen3.8",
        "tinker:qwen3_8",
        "fireworks:qwen3_8",
        "tml:Qwen38",
    },
    "zai-org/GLM-4.5": {"prime:glm-4.5"},
    "zai-org/GLM-5": {"prime:glm-5", "fireworks:glm5_0"},
    "zai-org/GLM-5.1": {"prime:glm-5.1", "fireworks:glm5"},
    "zai-org/GLM-5.2": {"fireworks:glm_moe_dsa", "tml:Glm52", "tml:Glm53", "tml:Glm53Flash"},
    "MiniMaxAI/MiniMax-M2": {"prime:minimax-m2", "fireworks:minimax_m2"},
    "MiniMaxAI/MiniMax-M2.7": {"prime:minimax-m2", "fireworks:minimax_m2"},
    "MiniMaxAI/MiniMax-M3": {"minimax-m3:minimax-m3", "fireworks:minimax_m3"},
    "meta-llama/Llama-3.1-8B-Instruct": {"prime:llama-3"},
    "meta-llama/Llama-3.2-3B-Instruct": {"prime:llama-3"},
    "google/gemma-4-E2B-it": {"prime:gemma4", "fireworks:gemma4_e2b"},
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {"prime:nemotron-3", "tinker:nemotron3"},
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": {"prime:nemotron-3", "tinker:nemotron3"},
    "moonshotai/Kimi-K2.6": {"prime:kimi-k2.5", "tinker:kimi_k26", "fireworks:kimi_k26", "tml:KimiK25"},
    "mistralai/Ministral-3-14B-Reasoning-2512": {"fireworks:mistral"},
    "deepseek-ai/DeepSeek-V3": {"prime:deepseek-v3"},
    "deepseek-ai/DeepSeek-V3.1": {"tinker:deepseekv3"},
}
"""The renderers that are made for a model, whether or not they equal its template here. Any other one must differ."""


MODELS = served.models(template=True) if WHOLE else served.models(template=True)[::3]


def tokenizer_of(model):
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    return real_tokenizers.load(model, name_or_path="ckpt-step-40")


def passing(model, light):
    registered = [each for each in load_backends()[0] if (each.backend.name in ("prime", "minimax-m3")) is light]
    query = Query("hidden", tokenizer_of(model))
    return {tried.name for each in registered for tried in try_all(each, query, Budget(float("inf"))) if tried.passed}


@pytest.mark.parametrize("model", MODELS)
def test_only_a_models_own_renderers_pass(model):
    assert passing(model, True) <= RIGHT.get(model, set())


@pytest.mark.whole
@pytest.mark.parametrize("model", MODELS)
def test_only_a_models_own_renderers_pass_with_torch(model):
    if importlib.util.find_spec("tinker_cookbook") is None:
        pytest.skip(f"not proved for {model}: tinker_cookbook isn't installed")
    assert passing(model, False) <= RIGHT.get(model, set())


CHANGES = {
    "a newline dropped": (r"<\|im_end\|>\\n", "<|im_end|>"),
    "a role renamed": (r"<\|im_start\|>assistant\\n", r"<|im_start|>Assistant\\n"),
    "the tools' text edited": (r"You may call one or more functions", "You may call one or many functions"),
    "a space in the JSON of a call": (r'\{"name": "', '{"name":"'),
    "a newline more before results": (r"\\n<tool_response>\\n", r"\\n\\n<tool_response>\\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_changed_character_matches_nothing(change):
    original = tokenizer_of("Qwen/Qwen3-8B").chat_template
    template, count = re.subn(*CHANGES[change], original, count=1)
    assert count == 1 and template != original
    assert nobody_equals("Qwen/Qwen3-8B", template)


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [
        ("MiniMaxAI/MiniMax-M3", "You are a helpful assistant", "You are a helpfull assistant"),
        ("MiniMaxAI/MiniMax-M3", "'</response>'", "'</response>\\n'"),
        ("zai-org/GLM-5.1", "<|observation|>", "<|observation|>\\n"),
        ("google/gemma-4-E2B-it", "<|turn>model", "<|turn>Model"),
    ],
)
def test_a_changed_character_in_other_formats_matches_nothing(model, old, new):
    original = tokenizer_of(model).chat_template
    assert old in original
    assert nobody_equals(model, original.replace(old, new))


def nobody_equals(model, template):
    tokenizer = copy.copy(tokenizer_of(model))
    tokenizer.chat_template = template
    light = [each for each in load_backends()[0] if each.backend.name in ("prime", "minimax-m3")]
    found = detect(light, Query("changed", tokenizer))
    assert found.winner is None, found.outcome
    assert found.complete and "the nearest is " in found.outcome
    return True
