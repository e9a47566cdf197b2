"""Prompts on every probe and bridges on the nine turn shapes, against the official template or encoder: ids alone decide."""

from __future__ import annotations

import pytest
import tml_oracle as oracle
from rllm_renderer_template.parity.bridges import BridgeOutcome, compare_bridges
from rllm_renderer_template.parity.probes import PROBES
from sampling import one_each

from rllm_renderer_core import RendererError

FORMAT = {"Qwen3.instruct": "Qwen3", "Qwen35.disable_thinking": "Qwen35", "Qwen38": "Qwen35", "DeepSeekV31": "DeepSeekV3"}

HERE = [case for case in oracle.CASES if not oracle.missing(case.model)]
CASES = one_each(HERE, lambda case: FORMAT.get(case.renderer, case.renderer))
"""V4 has no template to bridge with: see below. gpt-oss follows harmony behind calls, its template doesn't."""
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_prompts_equal_the_official_ones_or_are_refused(case):
    renderer = oracle.resolved(case.renderer, case.model, case.thinking)
    declared = renderer.deviations()
    equal = 0
    for probe in PROBES:
        expected = oracle.official(case, probe)
        try:
            got = renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt)
        except RendererError:
            unthinking = case.thinking is False and "reasoning" in probe.tags
            refusable = probe.tags & (case.refused | {"inline", "order"})  # what a renderer may refuse and still be proven
            assert expected is None or unthinking or refusable or probe.name in case.names, probe.name
            continue
        assert not (probe.tags & case.refused or probe.name in case.names), f"{probe.name}: rendered, though said to be refused"
        if expected is None:
            continue
        if probe.tags & case.deviating:
            assert probe.tags & declared.keys(), f"{probe.name}: deviates, and the backend doesn't say so"
            continue
        assert got == expected, probe.name
        equal += 1
    assert equal >= 8


@pytest.mark.parametrize("case", [case for case in CASES if case.model != oracle.V4 and not case.deviating], ids=str)
def test_bridges_continue_as_the_template_does_or_decline(case):
    renderer = oracle.resolved(case.renderer, case.model, case.thinking)
    results = list(compare_bridges(renderer, oracle.template(case.model, case.thinking)))
    assert [result.shape for result in results if result.outcome is BridgeOutcome.DIFFERS] == []
    assert sum(result.outcome is BridgeOutcome.AGREES for result in results) >= 3


@pytest.mark.parametrize("thinking", [None, False], ids=["thinking", "chat"])
def test_v4_bridges_end_as_the_encoder_ends(thinking):
    from rllm_renderer_template.parity.probes import OPENING, TOOLS, TURN_SHAPES, Probe

    case = oracle.Case("DeepSeekV4", oracle.V4, thinking)
    renderer = oracle.resolved(case.renderer, case.model, thinking)
    eos = renderer.get_stop_token_ids()[0]
    bridged = 0
    for shape in TURN_SHAPES:
        tools = TOOLS if shape.tools else None
        prompt = renderer.render_ids(OPENING, tools=tools, add_generation_prompt=True)
        through = renderer.render_ids([*OPENING, {**shape.assistant, "reasoning_content": "Hm."}], tools=tools)
        assert through[: len(prompt)] == prompt and through[-1] == eos
        sampled = through[len(prompt) :]
        out = renderer.bridge_to_next_turn(prompt, sampled, shape.new, tools=tools, previous_message=shape.assistant)
        if out is None:
            continue
        whole = oracle.official(case, Probe("whole", (*OPENING, shape.assistant, *shape.new), True, tools))
        assert whole is not None
        tail = whole[len(whole) - whole[::-1].index(eos) :]
        assert out.token_ids == prompt + sampled + tail, shape.name
        bridged += 1
    assert bridged >= 7
