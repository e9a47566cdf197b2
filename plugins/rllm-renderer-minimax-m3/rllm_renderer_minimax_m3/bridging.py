"""When the next turn may be appended to sampled ids as they are, and when not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.messages import has_media

from .markers import Vocabulary
from .parsing import Thinking, open_turn, thinking_state


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises ``BridgeDeclined`` for new messages that can't be appended."""
    if not messages:
        raise BridgeDeclined("no new messages")
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "assistant":
            raise BridgeDeclined(f"new message {index} is an assistant message")
        if role in ("root", "system", "developer"):
            raise BridgeDeclined(f"new message {index} is a {role} message, which the template leaves out past the head")
        if role not in ("user", "tool"):
            raise BridgeDeclined(f"new message {index} has role {role!r}, which the template doesn't have")
        if has_media(message):
            raise BridgeDeclined(f"new message {index} carries media, and minimax-m3 renders text alone")


def check_turn(
    prompt: Sequence[int],
    completion: list[int],
    messages: Sequence[Mapping[str, Any]],
    previous: Mapping[str, Any] | None,
    vocabulary: Vocabulary,
    opener: list[int],
    newline: int,
) -> tuple[bool, bool]:
    """Whether the sampled turn can be followed by ``messages``.

    Returns:
        Whether the turn's close must be added, and whether the newline behind the close is there already.

    Raises:
        BridgeDeclined: With the reason.
    """
    if not prompt:
        raise BridgeDeclined("empty prompt")
    if not completion:
        raise BridgeDeclined("empty completion: the turn has not begun")
    behind = open_turn(prompt, vocabulary)
    lead = len(opener) - 1
    if behind is None or list(behind[:lead]) != opener[1:] or vocabulary.close in behind:
        raise BridgeDeclined("the prompt doesn't end in an open assistant turn")
    closes = completion.count(vocabulary.close)
    if closes > 1:
        raise BridgeDeclined("two stops in the completion")
    stop = completion.index(vocabulary.close) if closes else len(completion)
    after = completion[stop + 1 :]
    if after not in ([], [newline]):
        raise BridgeDeclined(f"{len(after)} ids after the stop that don't begin the next turn")
    sampled = completion[:stop]
    if vocabulary.turn in sampled or vocabulary.begin in sampled:
        raise BridgeDeclined("the completion holds the opener of another turn")
    turn = [*behind[lead:], *sampled]
    if thinking_state(turn, vocabulary) is Thinking.OPEN:
        raise BridgeDeclined("the completion ends inside reasoning")
    if any(message["role"] == "tool" for message in messages):
        _check_results(turn, not closes, previous, vocabulary)
    return not closes, bool(after)


def _check_results(turn: list[int], cut: bool, previous: Mapping[str, Any] | None, vocabulary: Vocabulary) -> None:
    content = turn
    if vocabulary.think_close in turn:
        content = turn[len(turn) - turn[::-1].index(vocabulary.think_close) :]
    opened = content.count(vocabulary.calls_open)
    if not opened or (previous is not None and not previous.get("tool_calls")):
        raise BridgeDeclined("a tool result follows a turn without a call")
    if cut and content.count(vocabulary.calls_close) < opened:
        raise BridgeDeclined("the completion was cut off inside a tool call, and a result follows")
