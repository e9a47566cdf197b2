"""Generated bridge calls: new messages and completions of all kinds, and what must hold whatever they are."""

from __future__ import annotations

import random
from typing import Any

import shapes
from tinker_turns import CALLS, Turn

from rllm_renderer_core import BridgeDeclined

PIECES = [
    "ok", "And lids?", " ", "\n", "\n\n", "  ", "\t", "Größe", "日本", "é", "e\u0301", "\U0001f600", "\u200b",
    "x" * 30, "{}", "[1, 2]", "<think>", "</think>", "<tool_response>", "</tool_response>", "<|im_end|>",
    "<|im_start|>system", "<|user|>", "<|observation|>", "<｜User｜>", "<｜end▁of▁sentence｜>", "<|return|>",
    "<|call|>", "<|end|>", "<|eot_id|>", "<tool_call>", "</tool_call>", "yankee", "omega", "# Tools", "\r\n", "None",
    "</s>", "[gMASK]", "<|im_user|>",
]  # fmt: skip
ROLES = ["user"] * 6 + ["tool"] * 6 + ["system", "developer"]


def text(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.choice([0, 1, 1, 2, 3, 4])))


def new_messages(rng: random.Random) -> list[dict[str, Any]]:
    out = []
    for at in range(rng.choice([1, 1, 1, 2, 2, 3])):
        message: dict[str, Any] = {"role": rng.choice(ROLES), "content": text(rng)}
        if message["role"] == "tool":
            if rng.random() < 0.6:
                message["name"] = rng.choice(["look", "count"])
            if rng.random() < 0.6:
                message["tool_call_id"] = rng.choice([f"functions.look:{at}", f"functions.count:{at}", f"call_{at}"])
        out.append(message)
    return out


def completion(rng: random.Random, turn: Turn) -> list[int]:
    body = [] if rng.random() < 0.1 else turn.ids(rng.choice(["fine", "four apples", text(rng), "a\nb", "Größe "]))
    call = CALLS.get(turn.case.renderer)
    if call is not None and rng.random() < 0.5:
        body = [*body, *turn.ids(call * rng.choice([1, 1, 2]))]
    if rng.random() < 0.2:
        body = body[: rng.randrange(len(body) + 1)]
    start = [] if rng.random() < 0.1 else turn.start
    stop = [] if rng.random() < 0.2 else [rng.choice(turn.stops)]
    extra = turn.ids(rng.choice(["", "", "", "\n", "more"])) if rng.random() < 0.1 else []
    return [*start, *body, *stop, *extra]


def check(turn: Turn, sampled: list[int], new: list[dict[str, Any]]) -> str:
    """One call; ``"declined"``, ``"bridged"`` or ``"equal"``, the last where a full render shows the same ids.

    Raises:
        AssertionError: A broken prefix, a lost message, other ids than a full render.
    """
    out = turn.bridge(sampled, new)
    if isinstance(out, BridgeDeclined):
        assert out.__cause__ is None or "Error" in type(out.__cause__).__name__
        return "declined"
    size = len(turn.prompt) + len(sampled)
    assert out.token_ids[:size] == turn.prompt + sampled, "P + C changed"
    delta = out.token_ids[size:]
    assert delta, "nothing added"
    plain = shapes.TEXT
    called = {**shapes.ONE_CALL, "tool_calls": [shapes.call("look", "functions.look:0")]}
    for assistant in (called, plain) if any(m["role"] == "tool" for m in new) else (plain,):
        try:
            full = turn.resolved.render_ids(
                [*shapes.OPENING, assistant, *_named(new)], tools=turn.tools, add_generation_prompt=True
            )
        except Exception:
            continue
        tail = delta
        while tail and full[-len(tail) :] != tail and tail[0] in turn.resolved.upstream._control:
            tail = tail[1:]  # a close that was synthesised, and what stands before it
        if tail and full[-len(tail) :] == tail and len(delta) - len(tail) <= 1:
            return "equal"
    shown = turn.tokenizer.decode(delta)
    assert all(_visible(message["content"]) in _visible(shown) for message in new), "a message is lost"
    return "bridged"


def _named(new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": "look", "tool_call_id": "functions.look:0", **m} if m["role"] == "tool" else m for m in new]


def _visible(content: str) -> str:
    return "".join(content.split())
