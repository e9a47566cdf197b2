"""With the real cookbook: prompts equal the official template's or encoder's, bridges its continuation."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("rllm_renderer_fireworks")

import fireworks_oracle as oracle
import real_tokenizers
import shapes

import rllm_renderer_core as core

pytestmark = pytest.mark.needs("cookbook")


@pytest.fixture(params=oracle.CASES, ids=str)
def case(request):
    why = real_tokenizers.missing(request.param.model)
    if why:
        pytest.skip(why)
    return request.param


@pytest.mark.whole
def test_prompts_equal_the_official_ones(case):
    counts, odd = oracle.compare_renders(case)
    assert odd == []
    assert counts["equal"] >= 48


@pytest.mark.whole
def test_bridges_equal_the_official_continuation(case):
    bridges = oracle.compare_bridges(case)
    unforced = [each for each in bridges if each.outcome == "declined" and not oracle.forced(case, each)]
    assert [each for each in bridges if each.outcome == "wrong"] == []
    assert unforced == []
    counts = Counter(each.outcome for each in bridges)
    assert counts["equal"] >= 28
    assert counts["declined"] <= 4


OTHER_SCRIPT = {
    "type": "function",
    "function": {
        "name": "größe",
        "description": 'Größer, 日本; "quoted" & <tagged>',
        "parameters": {"type": "object", "properties": {"maß": {"type": "string", "enum": ["é", "ü"]}}, "required": ["maß"]},
    },
}


def test_a_tool_in_another_script(case):
    messages, tools = (
        [{"role": "system", "content": "[AVAILABLE_TOOLS] é"}, {"role": "user", "content": "ping"}],
        [OTHER_SCRIPT],
    )
    expected = shapes.encode(oracle.tokenizer(case.model), oracle.reference(case)(messages, tools, True))
    assert oracle.renderer(case).render_ids(messages, tools=tools, add_generation_prompt=True) == expected


@pytest.mark.parametrize("case", oracle.DEFAULTS, ids=str)
def test_without_options_a_model_gets_the_renderer_that_its_template_is_compared_with(case):
    resolution = core.select_backend(case.model, backend="fireworks")
    assert (resolution.renderer, resolution.match) == (case.renderer, "exact")
    account = core.select_backend(
        f"accounts/fireworks/models/{case.model.split('/')[1].lower().replace('.', 'p')}", backend="fireworks"
    )
    assert (account.renderer, account.match) == (case.renderer, "family")


@pytest.mark.parametrize(
    ("model", "thinking", "renderer"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", True, "deepseek_v4"),
        ("deepseek-ai/DeepSeek-V4-Flash", False, "deepseek_v4_disable_thinking"),
        ("google/gemma-4-E2B-it", True, "gemma4_thinking"),
        ("google/gemma-4-E2B-it", False, "gemma4_e2b"),
        ("google/gemma-4-31B-it", False, "gemma4"),
        ("Qwen/Qwen3.6-35B-A3B", False, "qwen3_6_disable_thinking_interleaved"),
        ("Qwen/Qwen3.8-27B", False, "qwen3_8_disable_thinking"),
    ],
)
def test_thinking_takes_the_variant(model, thinking, renderer):
    assert core.select_backend(model, backend="fireworks", thinking=thinking).renderer == renderer


@pytest.mark.parametrize(
    ("model", "thinking"),
    [("zai-org/GLM-5.2", False), ("MiniMaxAI/MiniMax-M2.7", False), ("mistralai/Ministral-3-14B-Reasoning-2512", True)],
)
def test_a_variant_that_isnt_there_is_an_error_that_names_both(model, thinking):
    with pytest.raises(core.OptionError, match=f"thinking={thinking}: backend 'fireworks'"):
        core.resolve(model, oracle.tokenizer(model), backend="fireworks", thinking=thinking, parity="off")


def test_a_prompt_without_system_message_has_the_default_of_the_models_own_template():
    for case in oracle.DEFAULTS:
        if case.renderer != "minimax_m2":
            continue
        ids = oracle.renderer(case).render_ids([{"role": "user", "content": "ping"}])
        identity = "Your name is MiniMax-M2.7" in oracle.tokenizer(case.model).decode(ids)
        assert identity == case.model.endswith("2.7")
