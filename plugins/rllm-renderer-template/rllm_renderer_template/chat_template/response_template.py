"""What was learned, as a ``response_template``: the form in which transformers (from 5.13 on), vLLM and TRL take a parser.

A template names a field for each part of a turn with the text that opens and closes it, see transformers' documentation on
response parsing. It can say less than was learned: it works on text, knows no broken call, and has few notations. What it
can't say is declined with the reason; what it says is proven by transformers' own engine on the completions of the probe
turns, which it must read as the learned parser does, or refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ..parser.calls.attempt import Declined
from ..parser.calls.headed import HeadedCalls
from ..parser.calls.json_text import JsonCalls, Path
from ..parser.calls.notations import json_object
from ..parser.calls.section import CallSection
from ..parser.calls.tagged import KEY
from ..parser.id_text import CONTROL, IdText
from ..parser.learning import Learned
from ..parser.literals import common_end, core, lead, trail
from ..parser.probes import TOOLS, Probes, Render
from ..parser.proof import AssistantTurn, Proof
from ..parser.turn_format import TurnFormat

NEEDS = "transformers 5.13 or later has the engine that reads response templates"
_REFERENCE = re.compile(r"\(\?P<id>.*?\+\?\)")


Completion = tuple[str, str, AssistantTurn]
"""A probe turn: the texts before and of it, and what it says."""


def proven(learned: Learned, render: Render, ids: IdText) -> dict[str, Any]:
    """The template of what was learned, by which transformers' engine reads what the learned parser does.

    Raises:
        Declined: It can't be said or proven so, with the reason.
    """
    template = response_template(learned.format, ids.plain)
    completions = _completions(learned, render, ids, read_back=True)
    other, refused = differences(template, completions)
    if other or len(refused) == len(completions):
        raise Declined(f"transformers' engine reads {', '.join(other or refused)} in another way")
    return template


def misread(template: Any, learned: Learned, render: Render, ids: IdText) -> list[str]:
    """The probe turns that the engine doesn't read back by a template that the checkpoint ships, by their labels.

    Raises:
        Declined: No completion shows a call to prove it by, or the installed transformers has no engine.
    """
    completions = _completions(learned, render, ids, read_back=False)
    if not any(said.calls for _, _, said in completions):
        raise Declined("no completion shows a call")
    return [label for labels in differences(template, completions) for label in labels]


def _completions(learned: Learned, render: Render, ids: IdText, *, read_back: bool) -> list[Completion]:
    """Probe turns as completions: those that the learned parser reads back, or all."""
    probes, form = Probes(render, ids), learned.format
    probes.form, probes.end = learned.form, min(form.stops)
    shown = Proof(probes).completions(form, read_back=read_back)
    return [(ids.plain(probes.prompt), ids.plain(text), said) for text, said in shown]


def response_template(form: TurnFormat, plain: Callable[[str], str]) -> dict[str, Any]:
    """The template of a learned format, not yet proven; ``plain`` gives its texts as the tokenizer decodes them.

    Raises:
        Declined: A template can't say it.
    """
    if not core(form.generation_prompt):
        raise Declined("the prompt has no text of its own before an assistant's turn")
    stops = sorted(map(plain, form.stops))
    fields: dict[str, Any] = {}
    between = [*map(core, form.content_opens), core(form.content_close)]
    if core(form.reasoning_close):
        if not core(form.reasoning_open):
            raise Declined("nothing opens the reasoning")
        fields["reasoning_content"] = {"open": plain(core(form.reasoning_open)), "close": plain(core(form.reasoning_close))}
    if form.calls is not None:
        opening, closing, around = _edges(form.calls)
        between += around
        if not (core(opening) and form.calls.strong):
            raise Declined("no tag and no control token opens a call")
        fields["tool_calls"] = {"repeats": True, **_calls(form.calls.style, core(opening), core(closing), stops, plain)}
    fields["content"] = {"close": [*map(plain, filter(None, between)), *stops], "repeats": True, "join": ""}
    return {
        "version": 1,
        "defaults": {"role": "assistant", "content": ""},
        "start_anchor": plain(form.generation_prompt),
        "fields": fields,
    }


def _edges(calls: CallSection) -> tuple[str, str, list[str]]:
    """What opens each call and what closes it, and what stands around all of them."""
    if calls.between is None:
        return calls.before, calls.close, [core(calls.after[len(calls.close) :])]
    following = calls.between[len(calls.close) :]
    opening = common_end([calls.before, following]) if core(following) else calls.before
    around = calls.before[: len(calls.before) - len(opening)], calls.after[len(calls.close) :]
    return opening, calls.close, list(map(core, around))


def _calls(style: Any, opening: str, closing: str, stops: list[str], plain: Callable[[str], str]) -> dict[str, Any]:
    close = plain(closing) if closing else stops

    def written(literal: str) -> str:
        return r"\s*".join(map(re.escape, plain(literal).split()))

    if isinstance(style, JsonCalls):
        inside = "" if style.calls is not None else "content."
        name, arguments, ident = (_path(inside, path) for path in (style.name, style.arguments, style.id or ()))
        if style.calls:
            raise Declined("the list of calls stands inside another value")
        function = _function(name, arguments, ident if style.id else "")
        field = {"open": plain(opening), "close": close, "content": "json", "transform": function}
        return field if style.calls is None else field | {"transform_each": True, "repeats": False}
    head = CONTROL.sub(lambda code: re.escape(plain(code[0])), style.head.pattern)
    if style.name_in_id:
        head = _REFERENCE.sub(r"(?P<id>functions\\.(?P<name>[\\w.\\-]+):\\d+)", head)
    function = _function("name", "content", "id" if "(?P<id>" in head else "")
    if isinstance(style, HeadedCalls):
        if style.reader is not json_object:
            raise Declined(f"{style.label}: a notation that no response template has")
        pattern = rf"{written(opening)}\s*{head}\s*(?=\{{)"
        return {"open_pattern": pattern, "close": close, "content": "json", "transform": function}
    if len(style.value_opens) > 1 or style.wrap or style.nests:
        raise Declined("values that aren't written one way: a response template has one")
    kind, ending = style.value_opens[0], style.closing.replace(KEY, "")
    before = rf"\s*{written(style.before)}" if core(style.before) else ""
    follows = "|".join(filter(None, (written(core(style.opening)), written(closing)))) if not before else ""
    tag = (
        rf"{written(style.opening)}\s*(?P<key>[^\s<>\"]+?){written(kind)}{_maybe(trail(kind))}(?P<value>.*?)"
        rf"{_maybe(lead(style.closing))}"
        + (written(ending) if ending == style.closing else "(?P=key)".join(map(re.escape, map(core, style.closing.split(KEY)))))
    )
    pattern = rf"{written(opening)}\s*{head}{before}" + (rf"(?=\s*(?:{follows}))" if follows else "")
    field = {"open_pattern": pattern, "close": close, "content": "xml-inline", "content_args": {"tag_pattern": tag}}
    return field | {"transform": function}


def _maybe(blank: str) -> str:
    return f"(?:{re.escape(blank)})?" if blank else ""


def _path(inside: str, path: Path | None) -> str:
    if path is None or not all(isinstance(step, str) and re.fullmatch(r"\w+", step) for step in path):
        raise Declined("a call's name is a key of its JSON, or stands where a template can't look")
    return inside + ".".join(map(str, path))


def _function(name: str, arguments: str, ident: str) -> dict[str, Any]:
    call: dict[str, Any] = {"type": "function", "function": {"name": f"{{{name}}}", "arguments": f"{{{arguments}}}"}}
    return call | ({"id": f"{{{ident}}}"} if ident else {})


def engine() -> Callable[..., dict[str, Any]] | None:
    """transformers' own function that reads a text by a template; ``None`` where the installed version has none."""
    try:
        from transformers.utils.chat_parsing import parse_response  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return parse_response  # type: ignore[no-any-return,unused-ignore]


def differences(template: Any, completions: Iterable[Completion]) -> tuple[list[str], list[str]]:
    """The probe turns that transformers' engine reads in another way, and those that it refuses, by their labels.

    Raises:
        Declined: The installed transformers has no engine.
    """
    parse = engine()
    if parse is None:
        raise Declined(NEEDS)
    other, refused = [], []
    for prompt, text, wanted in completions:
        try:
            message = parse(text, template, prefix=prompt, tools=TOOLS)
        except Exception:  # the engine's way of saying that a call is broken
            refused.append(wanted.label)
            continue
        if said(message).comparable != wanted.comparable:
            other.append(wanted.label)
    return other, refused


def said(message: dict[str, Any]) -> AssistantTurn:
    """What a message says that the engine made."""
    calls = [(call["function"]["name"], call["function"].get("arguments")) for call in message.get("tool_calls") or ()]
    return AssistantTurn("", reasoning_of(message), str(message.get("content") or ""), calls)


def reasoning_of(message: dict[str, Any]) -> str | None:
    """The reasoning of a message that the engine made, under whichever key its template has it."""
    return next((str(message[key]) for key in ("reasoning_content", "reasoning", "thinking") if message.get(key)), None)
