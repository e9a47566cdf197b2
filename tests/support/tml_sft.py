"""Training sequences of ``supervised`` beside those of upstream's ``render_for_sft``: the same ids and targets, or why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import shapes
import tml_oracle as oracle
from rllm_renderer_tml.conversion import to_upstream
from rllm_renderer_training import UnreachableTurnError, supervised

from rllm_renderer_core import RendererError

SYSTEM, QUESTION = {"role": "system", "content": "Be brief."}, shapes.user("How many apples?")
REASONED = {"role": "assistant", "content": "Four.", "reasoning_content": "Two and two."}
CALLED = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "Look it up.",
    "tool_calls": [shapes.call("look", "functions.look:0", "tea")],
}
RESULT = {"role": "tool", "tool_call_id": "functions.look:0", "name": "look", "content": "four"}
CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "text": ([SYSTEM, QUESTION, {"role": "assistant", "content": "Four."}], None),
    "reasoning": ([QUESTION, REASONED], None),
    "two turns": ([QUESTION, REASONED, shapes.user("Sure?"), {**REASONED, "content": "Yes."}], None),
    "a call": ([SYSTEM, QUESTION, CALLED, RESULT, REASONED], shapes.TOOLS),
}

EQUAL = "equal"
UNREACHABLE = "the template doesn't write the turn behind the prompt that it is sampled from: refused here"
UPSTREAM_REFUSES = "refused here and upstream"
SPLIT = "the same targets; upstream begins a sequence anew where it could go on"
FRAMED = "upstream trains reasoning of a past turn, or before a call, without the template's newlines"
STOPPED = "upstream ends the last turn with <|endoftext|>, here it ends with the role tag at which sampling stops"
OPENED = "upstream trains the opener as well, and writes neither the effort nor an empty text beside a call"
GLUED = "upstream writes no newline before a call, and begins a sequence anew"

_PLAIN = {"text": EQUAL, "reasoning": UNREACHABLE, "two turns": UNREACHABLE, "a call": UNREACHABLE}
_NO_REASONING = {"text": EQUAL, "reasoning": UPSTREAM_REFUSES, "two turns": UPSTREAM_REFUSES, "a call": UPSTREAM_REFUSES}
EXPECTED: dict[str, dict[str, str]] = {
    "Qwen3": {"text": EQUAL, "reasoning": EQUAL, "two turns": FRAMED, "a call": FRAMED},
    "Qwen3.instruct": _PLAIN,
    "Qwen35": {"text": EQUAL, "reasoning": EQUAL, "two turns": EQUAL, "a call": SPLIT},
    "Qwen35.disable_thinking": _NO_REASONING,
    "Qwen38": {"text": EQUAL, "reasoning": EQUAL, "two turns": SPLIT, "a call": SPLIT},
    "DeepSeekV3": _PLAIN,
    "DeepSeekV31": _NO_REASONING,
    "DeepSeekV4": dict.fromkeys(CONVERSATIONS, EQUAL),
    "Glm52": dict.fromkeys(CONVERSATIONS, STOPPED),
    "GptOss": _PLAIN,
    "KimiK25": _PLAIN,
    "Nemotron3": {"text": UNREACHABLE, "reasoning": EQUAL, "two turns": EQUAL, "a call": GLUED},
    "v0": dict.fromkeys(CONVERSATIONS, OPENED),
}
"""By the renderer: what is known to differ, and why."""

Sequences = list[tuple[list[int], list[int]]]
"""The ids of each sequence, and those that are trained."""


def compared(case: oracle.Case) -> Iterator[tuple[str, str]]:
    """Each conversation, and what was found: one of the texts above, as far as it can be seen."""
    for name, (messages, tools) in CONVERSATIONS.items():
        declared = None if "tools" in case.refused else tools
        yield name, _verdict(_ours(case, messages, declared), _theirs(case, messages, declared), EXPECTED[case.renderer][name])


def _verdict(ours: Sequences | None, theirs: Sequences | None, expected: str) -> str:
    if ours is None:
        return UPSTREAM_REFUSES if theirs is None else UNREACHABLE
    if theirs is None:
        return "refused upstream"
    if ours == theirs:
        return EQUAL
    mine, other = ([token for _, trained in each for token in trained] for each in (ours, theirs))
    if mine == other and len(theirs) > len(ours):
        return SPLIT
    other_ids = mine != other or any(ids not in [whole for whole, _ in theirs] for ids, _ in ours)
    return expected if other_ids and expected in (FRAMED, STOPPED, OPENED, GLUED) else "other ids"


def _ours(case: oracle.Case, messages: list[dict[str, Any]], tools: Any) -> Sequences | None:
    try:
        found = supervised(oracle.resolved(case.renderer, case.model), messages, tools=tools)
    except (UnreachableTurnError, RendererError):
        return None
    return [_trained(each.token_ids, each.weights) for each in found]


def _theirs(case: oracle.Case, messages: list[dict[str, Any]], tools: Any) -> Sequences | None:
    upstream = oracle.resolved(case.renderer, case.model).upstream.upstream
    try:
        found = upstream.render_for_sft(to_upstream(messages, tools))
    except ValueError:
        return None
    return [
        _trained(
            [token for span in each.input_token_spans for token in span.span.int_tokens], each.per_token_loss_weight_unshifted
        )
        for each in found
    ]


def _trained(ids: list[int], weights: list[float]) -> tuple[list[int], list[int]]:
    return list(ids), [token for token, weight in zip(ids, weights, strict=True) if weight]
