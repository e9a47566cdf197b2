"""Completions back to messages: upstream's parser, and what it leaves out.

Upstream gives up on a completion without its stop, reads reasoning only where it sees both of its markers, and raises on some
completions. So the ids are cut here: at the stop, and at the reasoning's close. What is left goes to upstream as a
finished turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.contract.parsing import BROKEN
from rllm_renderer_core.types import ParsedResponse, Termination

from .calls import attempts, starts_of_calls

HARMONY_BODY = "<|message|>"
HARMONY_CLOSED = "<|end|>"
REASONING_CHANNEL = "analysis"


@dataclass(frozen=True)
class ReasoningFrame:
    """What the format puts around reasoning: ids of its markers, and whether newlines pad it within and behind."""

    opening: int
    closing: int
    padded_within: bool
    padded_behind: bool


@dataclass(frozen=True)
class Format:
    """What a parser must know of a format.

    Attributes:
        stop_ids: Ids that end a turn.
        stop_strings: Texts that do, where no id does.
        opener: Ids that open an assistant's turn, with what is prefilled there.
        reasoning: ``None`` where reasoning isn't between two tokens.
        limit: Size of the vocabulary.
    """

    stop_ids: frozenset[int]
    stop_strings: tuple[str, ...]
    opener: tuple[int, ...]
    reasoning: ReasoningFrame | None
    limit: int


class CompletionParser:
    """Parses completions of one upstream renderer.

    Args:
        upstream: The renderer.
        tokenizer: Its tokenizer.
        format: See ``Format``.
    """

    def __init__(self, upstream: Any, tokenizer: Any, format: Format) -> None:
        self._upstream = upstream
        self._tokenizer = tokenizer
        self._format = format

    def parse(self, ids: list[int], tools: Sequence[Any] | None, prompt: list[int] | None) -> ParsedResponse:
        """The completion; never raises. Where ``prompt`` is ``None``, it is what this renderer's opener says."""
        at = next((index for index, token in enumerate(ids) if token in self._format.stop_ids), None)
        try:
            if self._format.stop_strings:
                return self._by_strings(ids)
            return self._by_ids(ids, at, tools, prompt)
        except Exception:  # whatever upstream makes of ids that no model samples; the text is kept
            body = self._known(ids if at is None else ids[:at])
            termination = Termination.TRUNCATED if at is None else Termination.MALFORMED
            return ParsedResponse(self._decode(body), termination=termination)

    def _by_ids(self, ids: list[int], at: int | None, tools: Sequence[Any] | None, prompt: list[int] | None) -> ParsedResponse:
        body = self._known(ids if at is None else ids[:at])
        reasoning, rest, complete = self._split(body, prompt)
        text = self._decode(rest)
        message = self._message(rest, ids[at] if at is not None else None)
        thoughts, content = _texts(message["content"])
        if isinstance(message["content"], str) and HARMONY_BODY in content:
            # Upstream's fallback where no channel has text is the whole completion, headers included.
            content = "" if message.get("tool_calls") or "to=functions." in text else content.rpartition(HARMONY_BODY)[2]
        if thoughts and not content.strip() and not message.get("tool_calls") and REASONING_CHANNEL in text:
            complete = complete and text.endswith(HARMONY_CLOSED)
        calls = attempts(text, message.get("tool_calls") or (), message.get("unparsed_tool_calls") or (), tools)
        content = _without(content, [call.raw for call in calls], text)
        content = content.rstrip() if calls else content  # what separates calls from text and from each other
        if reasoning is not None and self._format.reasoning is not None and self._format.reasoning.padded_behind:
            content = content.lstrip("\n")
        reasoning = "".join(part for part in (reasoning, thoughts) if part) or None
        if at is None:
            termination = Termination.TRUNCATED
        elif at < len(ids) - 1 or not complete or any(call.status in BROKEN for call in calls):
            termination = Termination.MALFORMED
        else:
            termination = Termination.STOP
        return ParsedResponse(content, reasoning, calls, termination, complete)

    def _by_strings(self, ids: list[int]) -> ParsedResponse:
        """Formats whose stop is a text: upstream's own verdict, which was a bool before it was an enum."""
        body = self._known(ids)
        message, verdict = self._upstream.parse_response(body)
        clean = verdict if isinstance(verdict, bool) else bool(verdict.is_clean)
        text = self._decode(body)
        if clean:
            termination = Termination.STOP
        else:
            stopped = any(stop in text for stop in self._format.stop_strings)
            termination = Termination.MALFORMED if stopped else Termination.TRUNCATED
        return ParsedResponse(_texts(message["content"])[1], termination=termination)

    def _message(self, rest: list[int], stop: int | None) -> dict[str, Any]:
        closing = stop if stop is not None else min(self._format.stop_ids)
        message, _ = self._upstream.parse_response([*rest, closing])
        return dict(message)

    # Reasoning

    def _split(self, body: list[int], prompt: list[int] | None) -> tuple[str | None, list[int], bool]:
        """Reasoning, the ids behind it, and whether it was closed."""
        frame = self._format.reasoning
        if frame is None:
            return None, body, True
        start = 0
        if not self._opened(prompt):
            if frame.opening not in body:
                return None, body, True
            start = body.index(frame.opening) + 1
            if self._decode(body[: start - 1]).strip():
                return None, body, frame.closing in body[start:]
        elif body[:1] == [frame.opening]:
            start = 1
        if frame.closing not in body[start:]:
            return self._reasoning(body[start:], frame), [], False
        end = body.index(frame.closing, start)
        return self._reasoning(body[start:end], frame), body[end + 1 :], True

    def _reasoning(self, ids: list[int], frame: ReasoningFrame) -> str:
        text = self._decode(ids)
        return text.strip("\n") if frame.padded_within else text

    def _opened(self, prompt: list[int] | None) -> bool:
        """Whether the prompt ends inside reasoning: by what stands behind the last assistant's header."""
        frame = self._format.reasoning
        if frame is None:
            return False
        opener = list(self._format.opener)
        if prompt is None:
            tail = opener
        else:
            header = [token for token in opener if token not in (frame.opening, frame.closing)]
            header = opener[: next((i for i, t in enumerate(opener) if t in (frame.opening, frame.closing)), len(header))]
            tail = prompt[_end_of_last(header, prompt) :]
        last = next((token for token in reversed(tail) if token in (frame.opening, frame.closing)), None)
        return last == frame.opening

    # Text

    def _known(self, ids: list[int]) -> list[int]:
        """Ids that the vocabulary has; the others have no text."""
        return [token for token in ids if 0 <= token < self._format.limit]

    def _decode(self, ids: list[int]) -> str:
        try:
            return str(self._tokenizer.decode(ids)) if ids else ""
        except Exception:
            return ""


def _texts(content: Any) -> tuple[str, str]:
    """Reasoning and visible text of an upstream message."""
    if isinstance(content, str):
        return "", content
    thoughts = "".join(part["thinking"] for part in content if part["type"] == "thinking")
    return thoughts, "".join(part["text"] for part in content if part["type"] == "text")


def _without(content: str, raws: Sequence[str], text: str) -> str:
    """The visible text without what was meant as calls: upstream leaves in what it couldn't parse."""
    ends = starts_of_calls(text)
    if ends < len(text) and content.endswith(text[ends:]):
        content = content[: len(content) - len(text[ends:])]
    elif ends < len(text) and text[ends:] in content:
        content = content[: content.rindex(text[ends:])]
    for raw in raws:
        if raw:
            content = content.replace(raw, "", 1)
    return content


def _end_of_last(header: list[int], prompt: list[int]) -> int:
    """Position behind the last occurrence of the header; a short tail where there is none."""
    size = len(header)
    for start in range(len(prompt) - size, -1, -1) if size else ():
        if prompt[start] == header[0] and prompt[start : start + size] == header:
            return start + size
    return max(0, len(prompt) - 16)
