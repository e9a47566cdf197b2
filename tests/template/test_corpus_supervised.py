"""Training sequences on public chat templates: each trained turn behind the template's own prompt, none lost, none twice.

A fixed sample of templates; all of them with ``--whole``, which also prints the figures.
"""

from __future__ import annotations

import collections

import chat_templates
import pytest
import sampling
from public_supervised import Verdict, verdicts

from rllm_renderer_core import RendererError, resolve

SAMPLE = 5


def chosen() -> list[str]:
    """All templates, or a sample that depends on nothing but their names."""
    found = chat_templates.names()
    return sampling.by_name(found, SAMPLE)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Verdict] | str]:
    """By template its verdicts, or why it has none."""
    if why := chat_templates.missing():
        pytest.skip(why)
    out: dict[str, list[Verdict] | str] = {}
    for name in chosen():
        try:
            tokenizer = chat_templates.put(name)
            renderer = resolve("public/template", tokenizer, backend="chat-template", parity="off")
        except (chat_templates.RefusedError, RendererError) as error:
            out[name] = str(error).splitlines()[0]
            continue
        out[name] = list(verdicts(tokenizer, renderer))
    return out


def all_of(outcomes: dict[str, list[Verdict] | str]) -> list[tuple[str, Verdict]]:
    return [(name, each) for name, found in outcomes.items() if not isinstance(found, str) for each in found]


def test_no_training_sequence_is_wrong(outcomes: dict[str, list[Verdict] | str]) -> None:
    assert [(name, each) for name, each in all_of(outcomes) if each.wrong] == []


def test_a_turn_is_left_out_only_where_the_template_forbids_it(outcomes: dict[str, list[Verdict] | str]) -> None:
    found = all_of(outcomes)
    for history in ("template", "verbatim"):
        of = [each for _, each in found if each.history == history]
        trained, skipped = sum(each.trained for each in of), sum(each.skipped for each in of)
        refused = sum(bool(each.refused) for each in of)
        sequences, needless = sum(each.sequences for each in of), sum(bool(each.needless) for each in of)
        print(
            f"\n{history}: {len(of)} conversations, {refused} refused; {trained} turns trained in {sequences} sequences, "
            f"{skipped} left out, needlessly in {needless} conversations"
        )
    for why, count in collections.Counter(each.refused[:110] for _, each in found if each.refused).most_common(12):
        print(f"{count:5} refused  {why}")
    for name, each in found:
        if each.needless:
            print(f"  {name}, {each.conversation}, {each.history}: {each.needless[:200]}")
    none = {name: why for name, why in outcomes.items() if isinstance(why, str)}
    assert len(none) <= (len(chosen()) // 20 if sampling.WHOLE else 2), none
    # In the sample one template that trains nothing weighs much.
    assert sum(each.trained for _, each in found) >= (6 if sampling.WHOLE else 4) * len(chosen())
    assert [(name, each) for name, each in found if each.needless] == []
