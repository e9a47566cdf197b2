"""Real tokenizers under a name that nobody knows: which renderer is found, and that it bridges as the template continues."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import real_tokenizers
import served
from rllm_renderer_template.parity.detection import LEAST_PROBES, detect
from shapes import SHAPES, TOOLS, closes, continuation, sampled_turn, template_text

from rllm_renderer_core import BridgeDeclined, resolve
from rllm_renderer_core.plugin import Query
from rllm_renderer_core.plugin.discovery import load_backends

pytest.importorskip("rllm_renderer_prime")
pytest.importorskip("renderers")
pytest.importorskip("transformers")

HIDDEN = "ckpt-step-40"

FOUND = {
    "Qwen/Qwen3-8B": "prime:qwen3",
    "Qwen/Qwen3-4B-Instruct-2507": "prime:qwen3",
    "Qwen/Qwen3.5-9B": "prime:qwen3.5",
    "Qwen/Qwen3.5-0.8B": "prime:qwen3.5",
    "Qwen/Qwen3.6-35B-A3B": "prime:qwen3.6",
    "Qwen/Qwen3.8-27B": "prime:qwen3.8",
    "zai-org/GLM-4.5": "prime:glm-4.5",
    "zai-org/GLM-5": "prime:glm-5",
    "zai-org/GLM-5.1": "prime:glm-5.1",
    "MiniMaxAI/MiniMax-M2": "prime:minimax-m2",
    "MiniMaxAI/MiniMax-M2.7": "prime:minimax-m2",
    "MiniMaxAI/MiniMax-M3": "minimax-m3:minimax-m3",
    "meta-llama/Llama-3.1-8B-Instruct": "prime:llama-3",
    "meta-llama/Llama-3.2-3B-Instruct": "prime:llama-3",
    "google/gemma-4-E2B-it": "prime:gemma4",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "prime:nemotron-3",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": "prime:nemotron-3",
}
"""What is found with the plugins that need neither torch nor the Fireworks cookbook. All other models fall back."""

LIGHT = ("prime", "minimax-m3")


def hidden(model):
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    return real_tokenizers.load(model, name_or_path=HIDDEN)


def light_backends():
    return [each for each in load_backends()[0] if each.backend.name in LIGHT]


@pytest.mark.parametrize("model", served.models(template=True))
def test_who_is_found(model):
    found = detect(light_backends(), Query(HIDDEN, hidden(model)))
    assert (found.winner.name if found.winner else None) == FOUND.get(model), found.outcome
    assert [tried.name for tried in found.tried if tried.passed] == ([FOUND[model]] if model in FOUND else [])
    if model not in FOUND:
        assert "the nearest is " in found.outcome or "no installed backend has a renderer" in found.outcome
    else:
        assert found.winner.report.accepted >= LEAST_PROBES


@pytest.mark.parametrize("model", [model for model in served.models() if model in FOUND])
def test_what_is_found_bridges_as_the_official_template_continues(model):
    tokenizer = hidden(model)
    renderer = resolve(None, tokenizer)
    assert f"{renderer.backend}:{renderer.name}" == FOUND[model] and renderer.resolution.match == "parity"
    named = real_tokenizers.load(model)  # the oracle goes by the name
    text_of = template_text(named)
    equal = 0
    for shape in SHAPES:
        tools = TOOLS if shape.assistant.get("tool_calls") else None
        try:
            prompt, sampled = sampled_turn(named, text_of, shape, closes(model), tools)
            expected = continuation(named, text_of, shape, closes(model), tools)
        except Exception:  # the template refuses this shape
            continue
        out = renderer.try_bridge(prompt, sampled, shape.new, tools=tools, previous_message=shape.assistant)
        if isinstance(out, BridgeDeclined):
            continue
        assert out.token_ids[len(prompt + sampled) :] == expected, shape.name
        equal += 1
    assert equal >= 7


@pytest.mark.needs("cookbook")
@pytest.mark.parametrize(
    ("model", "renderer"), [("zai-org/GLM-5.2", "glm_moe_dsa"), ("mistralai/Ministral-3-14B-Reasoning-2512", "mistral")]
)
def test_the_cookbooks_renderer_is_found_after_prime(model, renderer, monkeypatch):
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "tml")  # whose renderer of GLM-5.2 is equal too, and comes first
    found = resolve(None, hidden(model))
    assert (found.backend, found.name) == ("fireworks", renderer)


def test_thinking_is_part_of_what_is_compared():
    """With thinking off the template ends otherwise, and the same renderer is found with that option."""
    renderer = resolve(None, hidden("Qwen/Qwen3.5-9B"), thinking=False, require_bridge=True)
    assert (renderer.name, renderer.resolution.options) == ("qwen3.5", {"thinking": False})
    again = resolve(pin=renderer.resolution, tokenizer=hidden("Qwen/Qwen3.5-9B"))
    assert again.resolution == renderer.resolution


def test_a_listed_name_on_another_checkpoints_tokenizer_is_warned_about():
    """The map says what Qwen3-8B is; this tokenizer's template says that it isn't that."""
    from rllm_renderer_core import RendererWarning

    with pytest.warns(RendererWarning) as caught:
        resolve("Qwen/Qwen3-8B", hidden("Qwen/Qwen3-4B-Instruct-2507"), backend="prime", parity="warn")
    text = str(caught[0].message)
    assert "Qwen/Qwen3-8B: prime:qwen3 differs from the tokenizer's chat template on" in text
    assert "<think>" in text and "at id" in text
    assert "prime:qwen3, where the tokenizer isn't taken for this model's, is equal on" in text
    assert "fix: model='', backend='prime', renderer='qwen3'; parity='off' keeps prime:qwen3" in text
    assert resolve("", hidden("Qwen/Qwen3-4B-Instruct-2507"), backend="prime", renderer="qwen3", parity="error").has_bridge


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "Qwen/Qwen3-4B-Instruct-2507", "MiniMaxAI/MiniMax-M3"])
def test_a_listed_model_on_its_own_tokenizer_is_equal(model):
    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    assert resolve(model, real_tokenizers.load(model), parity="error").has_bridge


CODE = """
import sys
import real_tokenizers
import served
from rllm_renderer_core import resolve
tokenizer = real_tokenizers.load("zai-org/GLM-5.1", name_or_path="ckpt-step-40")
before = set(sys.modules)
assert resolve(None, tokenizer).name == "glm-5.1"
print(*sorted(set(sys.modules) - before))
"""


def test_what_prime_has_is_found_without_torch_and_the_other_renderers():
    """tinker_cookbook's list of names is read, as the name comes first; its renderers, which need torch, aren't imported."""
    why = real_tokenizers.missing("zai-org/GLM-5.1")
    if why:
        pytest.skip(why)
    path = os.pathsep.join([os.path.dirname(real_tokenizers.__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )
    assert run.returncode == 0, run.stderr
    assert "renderers" in run.stdout.split()
    assert not {"torch", "tinker_cookbook.renderers", "training.renderer"} & set(run.stdout.split())
