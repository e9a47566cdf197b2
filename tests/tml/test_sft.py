"""``supervised`` against upstream's ``render_for_sft``: the differences that docs/models-in-detail.md lists, and no others."""

from __future__ import annotations

import pytest
import tml_oracle as oracle
import tml_sft
from sampling import WHOLE

CASES = [case for case in oracle.CASES if case.thinking is None]
SAMPLE = [case for case in CASES if case.renderer in ("Qwen3", "DeepSeekV4")]


@pytest.mark.parametrize("case", CASES if WHOLE else SAMPLE, ids=str)
def test_it_differs_from_render_for_sft_where_it_is_said_to(case):
    assert dict(tml_sft.compared(case)) == tml_sft.EXPECTED[case.renderer]


def test_what_differs_starts_with_the_prompt_that_serving_renders():
    """The reason for the differences: each target of ours stands behind the prompt of its turn, upstream's doesn't."""
    case = SAMPLE[0]
    renderer = oracle.resolved(case.renderer, case.model)
    messages, tools = tml_sft.CONVERSATIONS["a call"]
    spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    prompts = [renderer.render_ids(messages[:index], tools=tools, add_generation_prompt=True) for index in spoken]
    ours, theirs = (sequences(case, messages, tools) for sequences in (tml_sft._ours, tml_sft._theirs))
    behind = [[any(ids[: len(prompt)] == prompt for ids, _ in each) for prompt in prompts] for each in (ours, theirs)]
    assert behind == [[True, True], [True, False]]
