"""Probe conversations that end with an assistant's turn, which may have been of several kinds, and new messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rllm_renderer_core.normal_form.pairing import Call, results_in
from rllm_renderer_core.probing.calls import ANSWER, KEY, NAME, QUESTION, VALUE, call_ids, tool_call

ANSWERS = (ANSWER, VALUE)
"""Two texts of an assistant's turn, without a common start or end."""
ALTERED = KEY
"""What a message is altered by: another start."""
STAND_IN = str(QUESTION["content"])
CALL: tuple[Call, ...] = ((NAME, call_ids()[0]),)


@dataclass(frozen=True)
class ProbeTurn:
    """One hypothesis: the probe's assistant turn, and the new messages with the names and ids of its calls."""

    new: list[dict[str, Any]]
    calls: tuple[Call, ...] = ()
    text: str = ""
    reasoning: str | None = None
    system: bool = True

    def variants(self) -> list[ProbeTurn]:
        """The same turn in the conversations that templates differ in accepting: some refuse a system message, others a turn of
        calls without text."""
        turns = [self, replace(self, system=not self.system)]
        return [*turns, *(replace(turn, text="" if turn.text else "ok") for turn in turns)] if self.calls else turns

    def history(self, answer: str = ANSWERS[0]) -> list[dict[str, Any]]:
        """A probe conversation whose assistant turn ends with this answer, as text or as the argument of its last call."""
        turn: dict[str, Any] = {"role": "assistant", "content": self.text if self.calls else answer}
        if self.reasoning is not None:
            turn["reasoning_content"] = self.reasoning
        if self.calls:
            arguments = json.dumps({KEY: answer})
            turn["tool_calls"] = [
                tool_call(name, arguments, call_id or call_ids(at=at)[0]) for at, (name, call_id) in enumerate(self.calls)
            ]
        opening = [{"role": "system", "content": "s"}] if self.system else []
        return [*opening, QUESTION, turn]

    def with_optional_parts(self) -> list[ProbeTurn]:
        """The same turn as it may also look; none of it may change what follows the close."""
        turns = [replace(self, reasoning="why"), replace(self, system=not self.system)]
        texts = () if not self.calls else ("", "so") if self.text else ("ok",)
        return [*turns, *(replace(self, text=text) for text in texts)]

    def with_stand_ins(self) -> ProbeTurn:
        """The same shape with contents of one word, each its own, so that their order shows; blank contents stay, since
        templates drop or trim them."""
        new = [{**m, "content": f"{STAND_IN}{at}"} if m["content"].strip() else m for at, m in enumerate(self.new)]
        return replace(self, new=new)


def without_texts(new: list[dict[str, Any]]) -> str:
    """All of the messages but what their text says; a blank text counts as it is, since templates drop or trim it."""
    return repr([{**m, "content": "text" if m["content"].strip() else [m["content"]]} for m in new])


def _with_results(new: list[dict[str, Any]], calls: Sequence[Call], *, named: bool) -> list[dict[str, Any]]:
    """The messages with the ids, and where they are shown the names, of these calls on their results."""
    answered = list(new)
    for (name, call_id), index in zip(calls, results_in(new), strict=False):
        shown = {"name": name} if named or "name" in new[index] else {}
        answered[index] = {**new[index], **shown, "tool_call_id": call_id}
    return answered


def possible_calls(new: list[dict[str, Any]], named: bool, *, keep: bool) -> list[ProbeTurn]:
    """What the calls may have been: if all of it gives one tail, nothing of it shows.

    Names and ids are placeholders; with ``keep`` only those that the results don't have themselves.
    """
    results = [new[index] for index in results_in(new)]

    def placeholders(name: str, first: int) -> tuple[tuple[str, str], ...]:
        kept = results if keep else [{}] * len(results)
        return tuple(
            (m.get("name") or f"{name}{at}", m.get("tool_call_id") or call_ids(at=first + at)[0]) for at, m in enumerate(kept)
        )

    calls, other = placeholders("f", 0), placeholders("look_up", 7000)
    first = _with_results(new, calls, named=named)
    return [
        ProbeTurn(first, calls),
        ProbeTurn(_with_results(new, other, named=named), other),
        ProbeTurn(first, (*calls, ("more", call_ids(at=900)[0]))),
        ProbeTurn(first, calls[::-1]),
    ]


def altered(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": ALTERED + message["content"]}
