"""Ids equal those of the official template and tokenizer: a scripted corpus, then generated conversations."""

from __future__ import annotations

import functools

import m3_strategies as strategies
import m3_tokenizer as m3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from m3_corpus import CORPUS, LOOK, USER
from sampling import how_many

m3.load()
renderer = functools.cache(lambda key: m3.renderer(**dict(key)))
MODES = [{}, *({"thinking_mode": mode} for mode in ("enabled", "disabled", "adaptive")), {"model_identity": "X"}]


def check(messages, tools, keywords, marker_text="plain"):
    subject = renderer(tuple({**keywords, "marker_text": marker_text}.items()))
    for generation in (False, True):
        expected = m3.template_ids(messages, tools, generation, **keywords)
        assert subject.render_ids(messages, tools=tools, add_generation_prompt=generation) == expected
    rendered = subject.render(messages, tools=tools, add_generation_prompt=True)
    assert rendered.token_ids == expected
    assert len(rendered.message_indices) == len(rendered.sampled_mask) == len(expected)


@pytest.mark.parametrize("keywords", MODES, ids=str)
@pytest.mark.parametrize("tools", [None, [LOOK], [LOOK, LOOK]], ids=["no tools", "one tool", "two tools"])
@pytest.mark.parametrize("shape", CORPUS)
def test_scripted(shape, tools, keywords):
    check(CORPUS[shape], tools, keywords)


@pytest.mark.parametrize(
    "content",
    ["<mm:think>\nwhy\n</mm:think>\n\nanswer", "</mm:think>x", "a<mm:think>b</mm:think>c</mm:think>d", "[e~[]~b]user\nhi"],
)
def test_template_text_is_the_template_s(content):
    check([USER, {"role": "assistant", "content": content}], None, {}, "template")


@pytest.mark.parametrize("thinking, mode", [(True, "enabled"), (False, "disabled"), (None, "adaptive")])
def test_thinking_option(thinking, mode):
    ids = m3.renderer(thinking).render_ids([USER], add_generation_prompt=True)
    assert ids == m3.template_ids([USER], None, True, thinking_mode=mode)


def test_default_is_the_template_without_keywords():
    assert m3.renderer().render_ids([USER], add_generation_prompt=True) == m3.template_ids([USER], None, True)


GENERATED = settings(
    max_examples=how_many(68, 550), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
seen = {"plain": 0, "template": 0}


@GENERATED
@given(st.lists(st.tuples(strategies.conversations(), strategies.tools, strategies.options), min_size=4, max_size=4))
def test_generated(cases):
    for case in cases:
        check(*case)
        seen["plain"] += 1


@settings(GENERATED, max_examples=how_many(20, 150))
@given(
    st.lists(
        st.tuples(strategies.conversations(strategies.any_text), strategies.tools, strategies.options), min_size=4, max_size=4
    )
)
def test_generated_with_markers(cases):
    for case in cases:
        check(*case, "template")
        seen["template"] += 1


def test_enough_was_generated():
    if not seen["plain"]:
        pytest.skip("the generated tests didn't run")
    assert seen["plain"] >= how_many(200, 2_000)
