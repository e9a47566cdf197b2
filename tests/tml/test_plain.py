"""What makes plain conversations fast: no row of any renderer's table changes them, so that upstream gets them as they are."""

from __future__ import annotations

import pytest
from rllm_renderer_tml.corrections.context import Context
from rllm_renderer_tml.corrections.plain import only_texts
from rllm_renderer_tml.corrections.splices import Splices
from rllm_renderer_tml.corrections.table import rows_for
from rllm_renderer_tml.families import FAMILIES

SYSTEM, USER, SPOKEN = ({"role": role, "content": f"{role} says é."} for role in ("system", "user", "assistant"))
PLAIN = ([USER], [SYSTEM, USER], [USER, SPOKEN, USER], [SYSTEM, USER, SPOKEN, USER, SPOKEN, USER])
OTHERS = {
    "nothing": [],
    "no user": [SYSTEM],
    "an answer last": [USER, SPOKEN],
    "two users": [USER, USER],
    "a late system": [USER, SPOKEN, SYSTEM, USER],
    "a developer": [{**SYSTEM, "role": "developer"}, USER],
    "an edge": [{**USER, "content": "hi\n"}],
    "another edge": [{**USER, "content": "\u3000hi"}],
    "a blank": [{**USER, "content": ""}],
    "a marker of reasoning": [USER, {**SPOKEN, "content": "why</think>four"}, USER],
    "a placeholder's character": [{**USER, "content": "a\ue0f70b"}],
    "reasoning": [USER, {**SPOKEN, "reasoning_content": "why"}, USER],
    "a result": [USER, {"role": "tool", "content": "r", "tool_call_id": "c"}],
    "parts": [{**USER, "content": [{"type": "image"}]}],
}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_row_changes_what_is_plain(family):
    for messages in PLAIN:
        assert only_texts(messages)
        splices = Splices(None, frozenset())
        context = Context(splices, None, {})
        for row in rows_for(family.name):
            assert row.rewrite is None or row.rewrite(list(messages), context) == messages, row.why
        assert not splices


@pytest.mark.parametrize("what", OTHERS)
def test_what_a_row_could_change_is_not_plain(what):
    assert not only_texts(OTHERS[what])
