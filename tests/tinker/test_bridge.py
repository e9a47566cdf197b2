"""Bridges over the nine turn shapes: equal to the official format, to the renderer's own full render, or declined."""

import itertools

import pytest
import shapes
import tinker_oracle as oracle

from rllm_renderer_core import BridgeDeclined
from rllm_renderer_core.normal_form.tokenizer import reasoning_ids

DECLINED = {
    ("deepseekv3", "system"): "the template moves it to the start",
    ("deepseekv3_thinking", "system"): "the template moves it to the start",
    ("deepseekv4_1", "system"): "",
    **{("llama3", shape.name): "no calls upstream" for shape in shapes.SHAPES if shape.assistant.get("tool_calls")},
}
"""Shapes whose bridge is declined, by renderer."""


def both(shape):
    return [shape] if shape.unnamed().new == shape.new else [shape, shape.unnamed()]


@pytest.mark.cases(that=lambda case: case not in oracle.OWN)
@pytest.mark.parametrize("tools", [None, shapes.TOOLS], ids=["no tools", "tools"])
def test_a_bridge_equals_the_official_format(case, resolved, tools):
    if case.renderer == "llama3":
        tools = None  # which upstream refuses
    for shape in shapes.SHAPES:
        expected, turn = oracle.official_delta(case, shape, tools), oracle.official_turn(case, shape, tools)
        if expected is None or turn is None:
            continue
        for named in both(shape):
            if case.renderer.startswith("kimi"):  # the name that the caller gave is the result's header, else the role is
                expected = oracle.official_delta(case, named, tools)
            out = resolved.try_bridge(*turn, named.new, tools=tools)
            if (case.renderer, shape.name) in DECLINED:
                assert isinstance(out, BridgeDeclined), shape.name
            else:
                assert not isinstance(out, BridgeDeclined), (shape.name, out.reason)
                assert out.token_ids == turn[0] + turn[1] + expected, shape.name


def finished(resolved, prompt, sampled):
    """The completion, with the close of the reasoning before it where the prompt opened that."""
    if resolved.parse_response(sampled, prompt_ids=prompt).reasoning_complete:
        return sampled
    return [reasoning_ids(resolved.tokenizer)[1], *sampled]


def own_turn(resolved, shape, tools):
    """P and C by the renderer itself: its prompt, and its render of the turn from there, up to the turn's close."""
    prompt = resolved.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
    full = resolved.render_ids([*shapes.OPENING, shape.assistant, *shape.new], tools=tools, add_generation_prompt=True)
    return prompt, full


@pytest.mark.parametrize("tools", [None, shapes.TOOLS], ids=["no tools", "tools"])
def test_a_bridge_equals_the_renderers_own_full_render(case, resolved, tools):
    """The completion is one word and a stop; what follows must be how the whole conversation, rendered, ends."""
    tokenizer = oracle.tokenizer(case.model)
    stops = [*resolved.get_stop_token_ids()]
    bridged = 0
    for shape, stop in itertools.product(shapes.SHAPES, stops):
        try:
            prompt, full = own_turn(resolved, shape, tools)
        except Exception:
            continue
        sampled = finished(resolved, prompt, [*shapes.encode(tokenizer, "fine"), stop])
        out = resolved.try_bridge(prompt, sampled, shape.new, tools=tools, previous_message=shape.assistant)
        if isinstance(out, BridgeDeclined):
            continue
        delta = out.token_ids[len(prompt) + len(sampled) :]
        assert full[-len(delta) :] == delta, shape.name
        for message in shape.new:
            assert message["content"].strip() in tokenizer.decode(delta), shape.name
        bridged += 1
    assert bridged or (tools and case.renderer == "llama3")


def test_thinking_off_is_bridged_as_the_template_has_it(renderer_of):
    for case in oracle.CASES:
        if not case.renderer.endswith("_disable_thinking"):
            continue
        resolved = renderer_of(case.renderer.removesuffix("_disable_thinking"), case.model, False)
        shape = shapes.SHAPES[0]
        prompt = resolved.render_ids(shapes.OPENING, add_generation_prompt=True)
        assert prompt == oracle.expected_ids(case, shapes.OPENING, None, True)
        sampled = [*shapes.encode(oracle.tokenizer(case.model), "four"), *resolved.get_stop_token_ids()]
        out = resolved.bridge_to_next_turn(prompt, sampled, shape.new)
        assert out.token_ids == prompt + sampled + oracle.official_delta(case, shape, None)


def test_a_bridge_costs_one_small_render_once_its_shape_is_known(renderer_of, monkeypatch):
    resolved = renderer_of("qwen3", "Qwen/Qwen3-8B")
    renderer = resolved.upstream
    prompt = resolved.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = [*shapes.encode(oracle.tokenizer("Qwen/Qwen3-8B"), "fine"), *resolved.get_stop_token_ids()]
    resolved.bridge_to_next_turn(prompt, sampled, [shapes.user("first")])
    rendered = []
    build = type(renderer.upstream).build_generation_prompt
    monkeypatch.setattr(
        type(renderer.upstream),
        "build_generation_prompt",
        lambda self, messages, *a, **k: rendered.append(len(messages)) or build(self, messages, *a, **k),
    )
    assert resolved.bridge_to_next_turn(prompt * 100, sampled, [shapes.user("second")])
    assert rendered == [4]
