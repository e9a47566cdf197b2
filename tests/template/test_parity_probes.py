"""The probes and turn shapes themselves."""

from __future__ import annotations

import pytest
from rllm_renderer_template.parity.probes import PROBES, TURN_SHAPES

from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools

TAGS = {"system", "reasoning", "tools", "calls", "results", "order", "whitespace", "inline", "letters", "no generation prompt"}


def test_names_are_unique_and_there_are_nine_shapes():
    assert len({probe.name for probe in PROBES}) == len(PROBES) >= 20
    assert len({shape.name for shape in TURN_SHAPES}) == len(TURN_SHAPES) == 9


@pytest.mark.parametrize("each", [*PROBES, *TURN_SHAPES], ids=lambda each: each.name)
def test_they_are_in_normal_form(each):
    messages = list(each.messages if hasattr(each, "messages") else [each.assistant, *each.new])
    assert normalize_messages(messages) == messages
    assert normalize_tools(each.tools) == (None if each.tools is None else list(each.tools))


def test_every_tag_is_documented_and_has_probes():
    found = set().union(*(probe.tags for probe in PROBES))
    assert found == TAGS


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_tags_say_what_is_in_it(probe):
    assert ("tools" in probe.tags) == bool(probe.tools)
    assert ("no generation prompt" in probe.tags) == (not probe.generation_prompt)
    assert ("calls" in probe.tags) == any("tool_calls" in message for message in probe.messages)
    assert ("results" in probe.tags) == any(message["role"] == "tool" for message in probe.messages)
    assert ("reasoning" in probe.tags) == any("reasoning_content" in message for message in probe.messages)


def test_a_call_and_its_result_have_one_id():
    for probe in PROBES:
        calls = [call["id"] for message in probe.messages for call in message.get("tool_calls", ())]
        assert [message["tool_call_id"] for message in probe.messages if message["role"] == "tool"] in (calls, [])
