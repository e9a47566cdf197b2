"""A completion's ids to reasoning, content and calls."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from rllm_renderer_core.types import ParsedResponse, Termination

from .calls import Calls
from .markers import Vocabulary


class Thinking(Enum):
    """Where an assistant turn stands before its next id."""

    UNDECIDED = 0
    OPEN = 1
    CLOSED = 2


def thinking_state(turn: Sequence[int], vocabulary: Vocabulary, start: Thinking = Thinking.UNDECIDED) -> Thinking:
    """Where a turn stands after ``turn``, the ids behind its opener: the last think tag decides."""
    for token in reversed(turn):
        if token == vocabulary.think_open:
            return Thinking.OPEN
        if token == vocabulary.think_close:
            return Thinking.CLOSED
    return start


def open_turn(ids: Sequence[int], vocabulary: Vocabulary) -> Sequence[int] | None:
    """What follows the last turn token in ``ids``, or ``None`` where there is none."""
    for at in range(len(ids) - 1, -1, -1):
        if ids[at] == vocabulary.turn:
            return ids[at + 1 :]
    return None


def parse(
    token_ids: Sequence[int],
    vocabulary: Vocabulary,
    tools: Sequence[Any] | None,
    start: Thinking,
) -> ParsedResponse:
    """Parse a completion.

    Args:
        token_ids: Sampled ids, with their stop if one was sampled.
        vocabulary: The tokenizer with the format's ids.
        tools: Declarations, for the types of arguments.
        start: Where the prompt left the turn.
    """
    ids = list(token_ids)
    stop = ids.index(vocabulary.close) if vocabulary.close in ids else None
    body = ids if stop is None else ids[:stop]
    reasoning, content, complete, sound = _reasoning(body, vocabulary, start)
    # A turn that begins inside a turn: the engine didn't stop where it must have.
    sound = sound and vocabulary.turn not in content and vocabulary.begin not in content
    reader = Calls(vocabulary, tools)
    reader.read(content)
    if stop is None:
        termination = Termination.TRUNCATED
    elif stop == len(ids) - 1 and complete and sound and not reader.broken:
        termination = Termination.STOP
    else:
        termination = Termination.MALFORMED
    return ParsedResponse(
        content=reader.content,
        reasoning_content=None if reasoning is None else vocabulary.decode(reasoning),
        tool_calls=reader.calls,
        termination=termination,
        reasoning_complete=complete,
    )


def _reasoning(body: list[int], vocabulary: Vocabulary, state: Thinking) -> tuple[list[int] | None, list[int], bool, bool]:
    """Split ids at the think tags: reasoning, content, whether reasoning was closed, whether tags came as they should.

    Text in front of a close that nothing opened is reasoning, as the template reads it. Reasoning once more after the first
    block is reasoning too, though the format has it only once: a call sketched there isn't a call.
    """
    opened, closed = vocabulary.think_open, vocabulary.think_close
    reasoning: list[int] | None = None
    content: list[int] = []
    sound = True
    if state is Thinking.UNDECIDED:
        first = next((at for at, token in enumerate(body) if token in (opened, closed)), None)
        if first is None:
            return None, body, True, True
        if body[first] == closed:
            reasoning, body = body[:first] or None, body[first + 1 :]
        else:
            content, body = body[:first], body[first + 1 :]
            sound = not vocabulary.decode(content).strip()
            content = [] if sound else content
            state = Thinking.OPEN
    elif state is Thinking.OPEN and body[:1] == [opened]:
        body = body[1:]
    while state is Thinking.OPEN:
        if closed not in body:
            return (reasoning or []) + body, content, False, sound
        end = body.index(closed)
        reasoning, body = (reasoning or []) + body[:end], body[end + 1 :]
        if opened not in body:
            break
        again = body.index(opened)
        content, body, sound = content + body[:again], body[again + 1 :], False
    if state is not Thinking.OPEN and opened in body:
        at = body.index(opened)
        later, rest, complete, _ = _reasoning(body[at:], vocabulary, Thinking.UNDECIDED)
        return (reasoning or []) + (later or []), content + body[:at] + rest, complete, False
    content = content + body
    return reasoning, content, True, sound and closed not in content
