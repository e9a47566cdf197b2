"""A client that plays a scripted session through a gateway, as an agent's does: it uses what it gets, and repairs nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import scripted_rollout as script


@dataclass
class Played:
    """A session as its client saw it.

    Attributes:
        name: The session's id.
        asked: The messages with which each turn was asked for.
        answers: The assistant's message of each turn, as it was given.
    """

    name: str
    asked: list[list[dict[str, Any]]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)


def play(
    url: str,
    session: int,
    *,
    turns: Sequence[script.Turn] = script.TURNS,
    stream: bool = False,
    spoil: Callable[[int, list[Any]], list[Any]] | None = None,
    edit: Callable[[int, dict[str, Any]], list[Any]] | None = None,
) -> Played:
    """One agent's session through the gateway, with a client that uses what it gets and nothing else.

    Args:
        url: The gateway's.
        session: Its number, which every text of it shows.
        turns: The script; a call that the client isn't given ends the session with an error.
        stream: Ask for streams.
        spoil: ``spoil(turn, new_messages)`` may change what arrives.
        edit: ``edit(turn, message)`` is what the client keeps of an answer: ``[message]``, another, none, or more.
    """
    import openai

    played = Played(f"rollout-{session}")
    messages: list[dict[str, Any]] = []
    ids: list[str] = []
    base = f"{url}/sessions/{played.name}/v1"
    with openai.OpenAI(base_url=base, api_key="none", max_retries=0, timeout=300) as client:
        for turn in range(len(turns)):
            new = script.arriving(session, turn, ids, turns)
            messages += spoil(turn, new) if spoil is not None else new
            played.asked.append(copy.deepcopy(messages))
            answer = client.chat.completions.create(model="m", messages=messages, tools=script.TOOLS, stream=stream)  # type: ignore[call-overload]
            message = gathered(answer) if stream else answer.choices[0].message.model_dump(exclude_none=True)
            played.answers.append(copy.deepcopy(message))
            messages += edit(turn, message) if edit is not None else [message]
            ids = [call["id"] for call in message.get("tool_calls") or ()]
    return played


def gathered(chunks: Any) -> dict[str, Any]:
    """A stream as one message; pieces of a call belong together by their index, as OpenAI's clients have it."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        delta = chunk.choices[0].delta.model_dump(exclude_none=True) if chunk.choices else {}
        for key in ("content", "reasoning", "reasoning_content"):
            if delta.get(key):
                message[key] = message.get(key, "") + delta[key]
        for piece in delta.get("tool_calls") or ():
            call = calls.setdefault(piece["index"], {"type": "function", "function": {"name": "", "arguments": ""}})
            call.update({key: piece[key] for key in ("id", "type") if key in piece})
            for key, text in piece["function"].items():
                call["function"][key] += text
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message


def check_answer(renderer: Any, scripted: script.Turn, message: dict[str, Any]) -> None:
    """What the model said reached the client, each part in its own place.

    Raises:
        AssertionError: Something is missing, made up, or in the content where it isn't content.
    """
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls") or ()]
    assert calls == [(name, {"q": q}) for name, q in scripted.calls], message
    said = message.get("content") or ""
    thought = (message.get("reasoning_content") or message.get("reasoning") or "").strip()
    if _opens_reasoning(renderer) and not scripted.thinks:
        # The generation prompt has begun reasoning that this turn doesn't have: its text is sampled as reasoning.
        assert scripted.says in (said, thought), message
        return
    assert said == scripted.says, message
    assert thought == (scripted.thinks if _has_reasoning(renderer) else ""), message


def _opens_reasoning(renderer: Any) -> bool:
    tail = renderer.tokenizer.decode(renderer.render_ids(script.ASKED, add_generation_prompt=True)[-3:])
    return "<think>" in tail and "</think>" not in tail


def _has_reasoning(renderer: Any) -> bool:
    return not renderer.name.replace("-", "").startswith(("llama3", "deepseekv3"))
