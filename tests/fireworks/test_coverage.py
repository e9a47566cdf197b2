"""Which ids the table covers, and that nothing near them is covered."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("rllm_renderer_fireworks")

from rllm_renderer_fireworks import cookbook
from rllm_renderer_fireworks.families import FAMILIES, THINKING, base_of, family_of, thinking_variant

PLUGIN = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "rllm-renderer-fireworks"

COVERED = {
    "deepseek-ai/DeepSeek-V4-Flash": "deepseek_v4",
    "deepseek-ai/DeepSeek-V4-Pro": "deepseek_v4",
    "deepseek-ai/DeepSeek-V4-Flash-0731": "deepseek_v4",
    "sgl-project/DeepSeek-V4-Pro-FP8": "deepseek_v4",
    "accounts/fireworks/models/deepseek-v4-flash-0731": "deepseek_v4",
    "google/gemma-4-E2B-it": "gemma4_e2b",
    "google/gemma-4-E4B-it": "gemma4_e2b",
    "google/gemma-4-26B-A4B-it": "gemma4",
    "google/gemma-4-31B-it": "gemma4",
    "accounts/fireworks/models/gemma-4-e4b-it": "gemma4_e2b",
    "zai-org/GLM-5": "glm5_0",
    "zai-org/GLM-5.1": "glm5",
    "zai-org/GLM-5.1-FP8": "glm5",
    "accounts/fireworks/models/glm-5p1-bf16": "glm5",
    "zai-org/GLM-5.2": "glm_moe_dsa",
    "accounts/me/models/glm-5p2": "glm_moe_dsa",
    "moonshotai/Kimi-K2.5": "kimi_k25_interleaved",
    "moonshotai/Kimi-K2.6": "kimi_k26_interleaved",
    "moonshotai/Kimi-K2.7-Code": "kimi_k27_code",
    "accounts/fireworks/models/kimi-k2p7-code": "kimi_k27_code",
    "moonshotai/Kimi-K3": "kimi_k3",
    "accounts/fireworks/models/kimi-k3": "kimi_k3",
    "MiniMaxAI/MiniMax-M2": "minimax_m2",
    "MiniMaxAI/MiniMax-M2.5": "minimax_m2",
    "MiniMaxAI/MiniMax-M2.7": "minimax_m2",
    "accounts/fireworks/models/minimax-m2p7": "minimax_m2",
    "MiniMaxAI/MiniMax-M3": "minimax_m3",
    "mistralai/Ministral-3-3B-Instruct-2512": "mistral",
    "mistralai/Mistral-Small-24B-Instruct-2501": "mistral",
    "accounts/fireworks/models/mistral-small-24b-instruct-2501": "mistral",
    "meta-models/Muse-Glimmer-30B": "muse_glimmer",
    "Qwen/Qwen2.5-32B-Instruct": "qwen2_5",
    "accounts/fireworks/models/qwen2p5-32b-instruct": "qwen2_5",
    "Qwen/Qwen3.6-27B": "qwen3_6_interleaved",
    "accounts/fireworks/models/qwen3p6-35b-a3b": "qwen3_6_interleaved",
    "Qwen/Qwen3.8-27B": "qwen3_8",
    "accounts/fireworks/models/qwen3p8-27b": "qwen3_8",
}

DIFFERENCES = {
    "gemma4_e2b": "gemma4: opens E2B's and E4B's turns with an empty thought, which their template doesn't",
    "glm5_0": "raises: the cookbook has no GLM-5",
    "kimi_k25_interleaved": "kimi_k25: adds a system message that the template doesn't",
    "kimi_k26_interleaved": "kimi_k25: adds a system message that the template doesn't",
    "qwen3_6_interleaved": "qwen3_6: drops reasoning behind the last user message",
}
"""Where the table names another renderer than the cookbook's own rule, and what is wrong with that one."""

NOT_COVERED = [
    "me/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V4-Flash-sft",
    "deepseek-ai/DeepSeek-V4-Flash-Base",
    "deepseek-ai/DeepSeek-V3.1",
    "deepseek-ai/DeepSeek-V4.1-Flash",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "google/gemma-4-31B",
    "google/gemma-3-4b-it",
    "zai-org/GLM-5.3",
    "zai-org/GLM-4.5",
    "zai-org/GLM-52",
    "accounts/fireworks/models/glm-5p2-mine",
    "accounts/fireworks/models/my-glm-5p2",
    "accounts/fireworks/kimi-k3",
    "moonshotai/Kimi-K30",
    "moonshotai/Kimi-K2-Instruct",
    "MiniMaxAI/MiniMax-M21",
    "x/not-MiniMax-M2",
    "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3.6-27B-Base",
    "accounts/fireworks/models/qwen3p8-max",
    "Qwen/Qwen3.8-Flash-Next",
    "/ckpt/run7/step_40",
    "",
]


@pytest.mark.parametrize("model", COVERED)
def test_covered(model):
    row = family_of(model)
    assert row is not None and row.renderer == COVERED[model]
    assert sum(each.matches(model) for each in FAMILIES) == 1


@pytest.mark.parametrize("model", NOT_COVERED)
def test_not_covered(model):
    assert family_of(model) is None


def test_letters_of_either_case():
    assert family_of("DEEPSEEK-AI/deepseek-v4-flash") is family_of("deepseek-ai/DeepSeek-V4-Flash")


def test_each_row_is_complete():
    for row in FAMILIES:
        assert row.source
        for model in row.checked:
            assert row.matches(model)


def test_the_default_is_one_of_its_own_variants():
    for row in FAMILIES:
        if row.renderer in THINKING:
            variants = {thinking_variant(row.renderer, thinking) for thinking in (True, False)} - {None}
            assert thinking_variant(row.renderer, None) == row.renderer
            assert row.renderer in variants


def test_a_variant_may_be_asked_for_what_it_is():
    assert thinking_variant("deepseek_v4_disable_thinking", False) == "deepseek_v4_disable_thinking"
    assert thinking_variant("deepseek_v4_disable_thinking", True) is None
    assert thinking_variant("glm5", False) is None


def test_the_requirement_is_the_line_that_errors_quote():
    lines = cookbook.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [cookbook.REQUIREMENT]
    assert re.fullmatch(r".*@[0-9a-f]{40}#subdirectory=training", cookbook.REQUIREMENT)


def test_no_dependency_and_no_extra_names_the_cookbook():
    import tomllib

    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == [f"rllm-renderer-{name}>=0.1,<1" for name in ("core", "template", "tinker")]
    assert "optional-dependencies" not in project


def test_importing_the_plugin_imports_nothing_heavy():
    heavy = ("torch", "transformers", "tinker", "tinker_cookbook", "training")
    code = f"import sys, rllm_renderer_fireworks; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


REAL = cookbook.find()
needs_cookbook = pytest.mark.needs("cookbook")


@needs_cookbook
def test_every_name_of_the_table_is_one_of_the_cookbooks():
    assert {base_of(row.renderer) for row in FAMILIES} <= REAL.names
    assert {base_of(name) for pair in THINKING.values() for name in pair if name} <= REAL.names


@needs_cookbook
def test_the_table_agrees_with_the_cookbooks_own_rule():
    """The rule is one function; its module imports all that the recipes need, so only the function is taken from the source."""
    source = (pathlib.Path(REAL.place) / "utils" / "supervised.py").read_text(encoding="utf-8")
    rule = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "resolve_renderer_name")
    recommended = importlib.import_module("tinker_cookbook.model_info").get_recommended_renderer_name
    scope = {"re": re, "get_recommended_renderer_name": recommended}
    exec(compile(ast.Module([rule], []), "supervised.py", "exec"), scope)
    different = {}
    for model, ours in COVERED.items():
        try:
            theirs = scope["resolve_renderer_name"](model)
        except Exception:
            theirs = "raises"
        if theirs != ours:
            different.setdefault(ours, set()).add(theirs)
    assert different == {ours: {reason.partition(":")[0]} for ours, reason in DIFFERENCES.items()}
