"""Bridges over public chat templates: the nine turn shapes on each, against what the template itself puts there.

A fixed sample of templates; all of them with ``--whole``, which also prints the table.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import dataclass

import chat_templates
import public_turns
import pytest
import sampling
from rllm_renderer_template.chat_template.renderer import ChatTemplateRenderer

from rllm_renderer_core import BridgeDeclined

SAMPLE = 24

FORCED = {
    "depends on more of the history than its last close": "the system message, which a bridge doesn't have, is in each user "
    "turn, or decides how turns are joined",
}
"""Reasons of a decline that the template forces, and what forces it."""


@dataclass(frozen=True)
class Outcome:
    template: str
    shape: str
    verdict: str
    detail: str = ""


def chosen() -> list[str]:
    """All templates, or a sample that depends on nothing but their names."""
    found = chat_templates.names()
    return sampling.by_name(found, SAMPLE)


def tried(name: str) -> Iterator[Outcome]:
    """``equal``, ``declined`` or ``wrong`` for each shape that the template shows, ``unshown`` for the others; ``refused`` for
    a template without conversations."""
    try:
        tokenizer = chat_templates.put(name)
    except chat_templates.RefusedError as error:
        yield Outcome(name, "", "refused", str(error))
        return
    turns = list(public_turns.turns(tokenizer))
    # Not through ``resolve``: what the core declines before it asks a backend, and learns for that, is tested elsewhere.
    seam = ChatTemplateRenderer(tokenizer, {})
    for turn in turns:
        if turn.wanted is None:
            yield Outcome(name, turn.shape, "unshown", turn.why)
            continue
        had = turn.prompt + turn.sampled
        try:
            out = seam.bridge_to_next_turn(
                turn.prompt, turn.sampled, turn.new, tools=turn.tools, previous_message=turn.previous
            )
        except BridgeDeclined as declined:
            yield Outcome(name, turn.shape, "declined", declined.reason)
            continue
        if out.token_ids == had + turn.wanted:
            yield Outcome(name, turn.shape, "equal")
        else:
            have, wanted = (tokenizer.decode(ids) for ids in (out.token_ids[len(had) :], turn.wanted))
            yield Outcome(name, turn.shape, "wrong", f"{have!r} instead of {wanted!r}")


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    why = chat_templates.missing()
    if why:
        pytest.skip(why)
    return [outcome for name in chosen() for outcome in tried(name)]


def test_no_bridge_is_wrong(outcomes: list[Outcome]) -> None:
    assert [outcome for outcome in outcomes if outcome.verdict == "wrong"] == []


def test_what_a_template_shows_is_bridged_unless_the_template_forbids_it(outcomes: list[Outcome]) -> None:
    declined = [outcome for outcome in outcomes if outcome.verdict == "declined"]
    assert [outcome for outcome in declined if not any(text in outcome.detail for text in FORCED)] == []
    count = collections.Counter(outcome.verdict for outcome in outcomes)
    for (verdict, detail), number in collections.Counter((each.verdict, each.detail[:90]) for each in outcomes).most_common():
        if verdict != "equal":
            print(f"{number:5} {verdict:9} {detail}")
    print(dict(count))
    assert count["refused"] <= max(2, len(chosen()) // 20), count
    # In the sample one template more or less weighs much.
    assert count["declined"] * (100 if sampling.WHOLE else 20) <= count["equal"], count
    assert count["equal"] >= (3400 if sampling.WHOLE else 100), count
    assert not sampling.WHOLE or count["declined"] <= 40, count
