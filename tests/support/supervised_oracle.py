"""What training sequences must be, by the official text of a format alone: no renderer, no ids of ours.

For the assistant message i the prompt is the official text of the messages before it, with the opener. What the model samples
is how the official text of the conversation that ends with the message goes on from there, up to its stop. Where it doesn't go
on from there, or leaves out the message's reasoning or a call, nobody can sample the message there: it is unreachable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import shapes

Messages = list[dict[str, Any]]


def call(name: str, at: int, q: str) -> dict[str, Any]:
    return {"id": f"functions.{name}:{at}", "type": "function", "function": {"name": name, "arguments": json.dumps({"q": q})}}


def assistant(content: str, *, reasoning: str | None = None, calls: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls)
    return message


SYSTEM = {"role": "system", "content": "Be brief."}
CONVERSATIONS: dict[str, tuple[Messages, bool]] = {
    "plain": (
        [SYSTEM, shapes.user("How many apples?"), assistant("Four apples."), shapes.user("And lids?"), assistant("Two lids.")],
        False,
    ),
    "reasoning": (
        [
            SYSTEM,
            shapes.user("How many apples?"),
            assistant("Four apples.", reasoning="Two and two."),
            shapes.user("And lids?"),
            assistant("Two lids.", reasoning="One and one."),
            shapes.user("Sure?"),
            assistant("Sure.", reasoning="I counted."),
        ],
        False,
    ),
    "mixed": (
        [
            SYSTEM,
            shapes.user("How many apples?"),
            assistant("Four apples.", reasoning="Two and two."),
            shapes.user("And lids?"),
            assistant("Two lids."),
            shapes.user("Sure?"),
            assistant("Sure.", reasoning="I counted."),
        ],
        False,
    ),
    "tool cycle": (
        [
            SYSTEM,
            shapes.user("How many apples?"),
            assistant("", reasoning="I look.", calls=[call("look", 0, "apples")]),
            shapes.result("look", "functions.look:0", "four"),
            assistant("", reasoning="Count them.", calls=[call("count", 1, "lids")]),
            shapes.result("count", "functions.count:1", "two"),
            assistant("Four and two.", reasoning="Done."),
            shapes.user("Thanks. And cups?"),
            assistant("No cups.", reasoning="None seen."),
        ],
        True,
    ),
    "parallel calls": (
        [
            SYSTEM,
            shapes.user("How many apples and lids?"),
            assistant("", calls=[call("look", 0, "apples"), call("count", 1, "lids")]),
            shapes.result("look", "functions.look:0", "four"),
            shapes.result("count", "functions.count:1", "two"),
            assistant("Four and two."),
            shapes.user("And cups?"),
            assistant("No cups."),
        ],
        True,
    ),
}
"""Name to messages, and whether tools are declared."""


def conversations(model: str, renderer: str) -> dict[str, tuple[Messages, bool]]:
    """Those that the format has: harmony has one call a turn, and tinker's llama3 none at all."""
    without = {"parallel calls"} if model.startswith("openai/") else set()
    without |= {"tool cycle", "parallel calls"} if renderer == "llama3" else set()
    return {name: each for name, each in CONVERSATIONS.items() if name not in without}


UNWRITTEN = {"zai-org/": ("<|user|>", "<|observation|>"), "deepseek-ai/DeepSeek-V3": ("<｜end▁of▁sentence｜>",) * 2}
"""Stops that a template doesn't write behind a finished turn: of text, and of calls."""


@dataclass(frozen=True)
class Turn:
    """P and C of one assistant message; ``completion`` is ``None`` where the format forbids it, with the reason in ``why``."""

    index: int
    prompt: tuple[int, ...]
    completion: tuple[int, ...] | None
    why: str = ""


def turns(tokenizer: Any, text_of: shapes.TextOf, model: str, messages: Messages, tools: Any) -> list[Turn]:
    """One for each assistant message."""
    spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    return [_turn(tokenizer, text_of, model, messages, index, tools) for index in spoken]


def _turn(tokenizer: Any, text_of: shapes.TextOf, model: str, messages: Messages, index: int, tools: Any) -> Turn:
    try:
        prompt = text_of(messages[:index], tools, True)
        finished = text_of(messages[: index + 1], tools, False)
    except Exception as error:
        return Turn(index, (), None, f"the template refuses: {type(error).__name__}: {error}"[:100])
    ids = shapes.encode(tokenizer, prompt)
    if not finished.startswith(prompt):
        return Turn(index, tuple(ids), None, "the text doesn't go on from the prompt")
    said = finished[len(prompt) :]
    message = messages[index]
    if (message.get("reasoning_content") or "") not in said:
        return Turn(index, tuple(ids), None, "the template drops the reasoning")
    names = [each["function"]["name"] for each in message.get("tool_calls", ())]
    if any(name not in said for name in names):
        return Turn(index, tuple(ids), None, "the template drops a call")
    ends = [said.index(stop) + len(stop) for stop in shapes.stops(model) if stop in said]
    if ends:
        said = said[: min(ends)]
    else:
        said += next(stops for start, stops in UNWRITTEN.items() if model.startswith(start))[bool(names)]
    whole = shapes.encode(tokenizer, prompt + said)
    completion = whole[len(ids) :] if whole[: len(ids)] == ids else shapes.encode(tokenizer, said)
    return Turn(index, tuple(ids), tuple(completion))


def sequences(known: Sequence[Turn]) -> list[tuple[list[int], list[bool]]]:
    """The fewest sequences of these turns: ids, and which of them are trained."""
    out: list[tuple[list[int], list[bool]]] = []
    for turn in known:
        if turn.completion is None:
            continue
        if not out or list(turn.prompt[: len(out[-1][0])]) != out[-1][0]:
            out.append(([], []))
        ids, mask = out[-1]
        new = turn.prompt[len(ids) :]
        ids.extend([*new, *turn.completion])
        mask.extend([*[False] * len(new), *[True] * len(turn.completion)])
    return out
