"""What a public chat template puts behind an assistant turn: the nine turn shapes without knowing the format.

The template renders the whole conversation, with the turn in its place, as text. Behind the turn's last words is the first
close; what lies behind that is what a bridge must append. Openings, ids of calls and the form of calls are tried until the
template accepts the conversation and shows all of it: templates differ in what they take.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import shapes

MORE_CLOSES = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|return|>", "<|call|>", "<|end|>")
"""Texts that end a turn besides the tokenizer's own stop, where the template has them."""
OPENED = ("<think>", "<seed:think>", "<longcat_think>", "[THINK]", "<mm:think>")
"""Openers of reasoning that a prompt may end with."""
NINE = {"functions.look:0": "callLook0", "functions.count:1": "callCount"}
"""Ids of nine letters and digits, which Mistral's templates insist on."""


@dataclass(frozen=True)
class Turn:
    """One case: P and C, N, the parsed message, and the ids that the template puts behind the turn's close.

    ``wanted`` is ``None`` where the template refuses the conversation, doesn't show all of it, or closes no turn by a token.
    """

    shape: str
    prompt: list[int]
    sampled: list[int]
    new: list[dict[str, Any]]
    previous: dict[str, Any]
    tools: list[dict[str, Any]] | None
    wanted: list[int] | None
    why: str = ""


@dataclass(frozen=True)
class Form:
    """How messages are handed to the template: what stands for no content beside calls, arguments, contents as parts, an
    assistant's reasoning and text as blocks (Apertus)."""

    empty: str | None = ""
    as_text: bool = False
    parts: bool = False
    blocks: bool = False


def turns(tokenizer: Any) -> Iterator[Turn]:
    """Each of the nine shapes, as this template takes it."""
    parts = (False, True)
    for shape in shapes.SHAPES:
        why = ""
        for shaped, opening, tools, form in _conversations(shape, parts, tokenizer.chat_template):
            try:
                turn = _turn(tokenizer, shaped, opening, tools, form)
            except Exception as error:
                why = why or f"{type(error).__name__}: {str(error)[:80]}"
                continue
            parts = (form.parts,)  # a template takes all contents alike
            yield turn
            break
        else:
            yield Turn(shape.name, [], [], shape.new, shape.assistant, None, None, why or "the template knows no calls")


def _conversations(
    shape: shapes.Shape, parts: tuple[bool, ...], source: str
) -> Iterator[tuple[shapes.Shape, list[dict[str, Any]], Any, Form]]:
    openings = (shapes.OPENING, shapes.OPENING[1:])
    if not shape.assistant.get("tool_calls"):
        for opening, as_parts in itertools.product(openings, parts):
            yield shape, opening, None, Form(parts=as_parts)
    elif "tool" in source:
        strict = _with_ids(shape)
        for tools, opening, shaped, empty, as_text, as_parts in itertools.product(
            (shapes.TOOLS, None), openings, (shape, strict), ("", None), (False, True), parts
        ):
            yield shaped, opening, tools, Form(empty, as_text, as_parts)


def _with_ids(shape: shapes.Shape) -> shapes.Shape:
    text = json.dumps([shape.assistant, shape.new])
    for old, new in NINE.items():
        text = text.replace(old, new)
    assistant, new_messages = json.loads(text)
    return shapes.Shape(shape.name, assistant, new_messages)


def _turn(tokenizer: Any, shape: shapes.Shape, opening: Any, tools: Any, form: Form) -> Turn:
    """Raises where the template refuses the conversation or doesn't show it."""

    def text_of(messages: list[dict[str, Any]], opener: bool) -> str:
        return str(
            tokenizer.apply_chat_template(
                [_formed(message, form) for message in messages], tools=tools, add_generation_prompt=opener, tokenize=False
            )
        )

    text = text_of([*opening, shape.assistant, *shape.new], True)
    behind = text.rindex(shape.last_words) + len(shape.last_words)
    for call in shape.assistant.get("tool_calls") or ():
        if call["function"]["name"] not in text.replace(str(tools), ""):
            raise LookupError("a call isn't shown")
    if shape.assistant.get("tool_calls") and "None" in text[: behind + 40] and "None" not in text_of(opening, True):
        raise LookupError("the template prints None")
    closes = {tokenizer.eos_token, *(each for each in MORE_CLOSES if each in tokenizer.chat_template)}
    found = [(text.index(each, behind) + len(each), each) for each in closes if each in text[behind:]]
    if not found:
        raise LookupError("no close is behind the turn")
    end = min(found)[0]
    _shown(text_of([*opening, shape.assistant, *_worded(shape.new)], True), text[:end], _worded(shape.new))
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = list(encoded["input_ids"])
    cut = next((index for index, (start, _) in enumerate(encoded["offset_mapping"]) if start >= end), len(ids))
    closed, prompt = text_of(opening, False), text_of(opening, True)
    opener = prompt[len(closed) :] if prompt.startswith(closed) else ""
    sampled = shapes.encode(tokenizer, _sampled(prompt, opener, text[:end], shape))
    if sum(sampled.count(tokenizer.convert_tokens_to_ids(close)) for close in closes) > 1:
        raise LookupError("the template closes the turn twice: no completion is like it")
    return Turn(shape.name, shapes.encode(tokenizer, prompt), sampled, shape.new, shape.assistant, tools, ids[cut:])


def _worded(new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The new messages with another word each, also where they are blank."""
    return [{**message, "content": f"zq{at}zq"} for at, message in enumerate(new)]


def _shown(text: str, through: str, new: list[dict[str, Any]]) -> None:
    """Raises unless all new messages show, and behind the close; results may be put in the order of their calls."""
    if not text.startswith(through):
        raise LookupError("the new messages change what is before them")
    at = [text.find(message["content"], len(through)) for message in new]
    if -1 in at:
        raise LookupError(f"a new message isn't shown: {new[at.index(-1)]['role']}")
    if at != sorted(at) and any(message["role"] != "tool" for message in new):
        raise LookupError("the new messages are shown in another order")


def _sampled(prompt: str, opener: str, through: str, shape: shapes.Shape) -> str:
    """C as the model would have sampled it: what the template writes of the turn, behind what the prompt opened."""
    if through.startswith(prompt):
        return through[len(prompt) :]
    opened = next((each for each in OPENED if opener.rstrip().endswith(each)), None)
    if opened is None:
        common = next((at for at, (a, b) in enumerate(zip(prompt, through, strict=False)) if a != b), len(prompt))
        header = opener
    else:
        common, header = 0, opener.rpartition(opened)[0]
    words = through.rindex(shape.last_words)
    start = through.rfind(header, 0, words) + len(header) if header and header in through[:words] else common
    if opened is None:
        return through[start:]
    close = opened.replace("<", "</", 1) if opened[0] == "<" else opened.replace("[", "[/", 1)
    return f"Weighing it.{close}{through[start:].rpartition(close)[2].lstrip()}"


def _formed(message: dict[str, Any], form: Form) -> dict[str, Any]:
    out = dict(message)
    if message.get("tool_calls"):
        calls = json.loads(json.dumps(message["tool_calls"]))
        if not form.as_text:
            for call in calls:
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        out |= {"content": message["content"] or form.empty, "tool_calls": calls}
    if form.parts and isinstance(out["content"], str):
        out["content"] = [{"type": "text", "text": out["content"]}]
    if form.blocks and message["role"] == "assistant":
        texts = {"thoughts": out.pop("reasoning_content", None), "response": message["content"]}
        out["content"] = {"blocks": [{"type": kind, "text": text} for kind, text in texts.items() if text]}
    return out
