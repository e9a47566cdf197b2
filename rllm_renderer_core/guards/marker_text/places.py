"""Where text can stand in a conversation, and whether a renderer makes control ids of it there."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from ...types import Renderer
from .markers import Markers

WORD = "harmless"
MOST = 8
"""How many control tokens are spelled in each place: those that the renderer writes by itself come first."""

Conversation = tuple[list[dict[str, Any]], list[dict[str, Any]] | None]


def conversations(text: str) -> dict[str, Conversation]:
    """By place, a conversation in normal form with the text there, and its tools."""

    def tools(name: str = "look", description: str = "Look.") -> list[dict[str, Any]]:
        schema = {"type": "object", "properties": {"q": {"type": "string", "description": description}}}
        return [{"type": "function", "function": {"name": name, "description": description, "parameters": schema}}]

    def cycle(reasoning: str = "", result: str = "r", name: str = "look", value: str = "x") -> list[dict[str, Any]]:
        arguments = json.dumps({"q": value, value: 0}, ensure_ascii=False)
        call = {"id": f"functions.{name}:0", "type": "function", "function": {"name": name, "arguments": arguments}}
        spoken: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
        if reasoning:
            spoken["reasoning_content"] = reasoning
        return [user, spoken, {"role": "tool", "content": result, "tool_call_id": call["id"], "name": name}]

    user = {"role": "user", "content": "hi"}
    return {
        "a user's text": ([{"role": "user", "content": text}], None),
        "a system text": ([{"role": "system", "content": text}, user], None),
        "a later system text": ([user, {"role": "assistant", "content": "a"}, {"role": "system", "content": text}, user], None),
        "an assistant's text": ([user, {"role": "assistant", "content": text}, user], None),
        "an assistant's last text": ([user, {"role": "assistant", "content": text}], None),
        "reasoning": (cycle(reasoning=text), tools()),
        "a result": (cycle(result=text), tools()),
        "an argument": (cycle(value=text), tools()),
        "a tool's name": (cycle(name=f"look{text}"), tools(f"look{text}")),
        "a tool's description": ([user], tools(description=text)),
    }


def first_place_that_controls(renderer: Renderer, tokenizer: Any, control: Collection[int], markers: Markers) -> str | None:
    """The first place where the renderer makes control ids of a text, or loses it; ``None`` where it does so nowhere.

    A place that it refuses counts as none: nothing is rendered there. Bridges are tried as well as renders.

    Args:
        renderer: A backend's own, which gets the texts as they are.
        tokenizer: The one that was passed in.
        control: Ids of its control tokens, ``markers`` their texts.
    """

    def count(text: str, place: str) -> int | None:
        messages, tools = conversations(text)[place]
        try:
            ids = renderer.render_ids(messages, tools=tools, add_generation_prompt=messages[-1]["role"] != "assistant")
        except Exception:  # upstream's refusals have no common type
            return None
        return sum(map(control.__contains__, ids))

    def bridged(text: str) -> int | None:
        stops = renderer.get_stop_token_ids()
        opening, new = [{"role": "user", "content": "hi"}], [{"role": "user", "content": text}]
        try:
            prompt = renderer.render_ids(opening, add_generation_prompt=True)
            sampled = [*tokenizer.encode("four", add_special_tokens=False), stops[0]]
            out = renderer.bridge_to_next_turn(prompt, sampled, new)
        except Exception:
            return None
        return None if out is None else sum(map(control.__contains__, out.token_ids))

    if count(WORD, "a user's text") is None:
        return "nothing that could be tried"
    spelled = _spelled(renderer, tokenizer, control, markers)
    for place in conversations(WORD):
        plain = count(WORD, place)
        for text in spelled if plain is not None else ():
            if count(text, place) not in (plain, None):
                return f"{place} ({text!r})"
    plain = bridged(WORD)
    for text in spelled if plain is not None else ():
        if bridged(text) not in (plain, None):
            return f"a bridged user's text ({text!r})"
    return None


def _spelled(renderer: Renderer, tokenizer: Any, control: Collection[int], markers: Markers) -> list[str]:
    """Control tokens as text: what the renderer itself writes, further ones, and all of them in a row."""
    written: dict[str, None] = {}
    for messages, tools in conversations(WORD).values():
        try:
            ids = renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
        except Exception:
            continue
        written |= dict.fromkeys(str(tokenizer.decode([token])) for token in ids if token in control)
    texts = list(dict.fromkeys([*(text for text in written if text in markers.texts), *sorted(markers.texts)]))[:MOST]
    return [*texts, "".join(texts), f"{texts[0]}\n{texts[-1]}"]
