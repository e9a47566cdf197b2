"""Re-encodes all that lies between two control tokens at once, headers with what follows them, as a chat template's text is.

Where a renderer needs it (texts with white space at an edge, an empty block of reasoning in the last turn) is learned once, of
made-up conversations; then only conversations with such a place cost more than a look at the edges of their texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...normal_form.ids import BridgedTokens, common_prefix
from ...normal_form.tokenizer import chat_template, control_ids
from ...plugin import rendering_probes
from ...types import RenderedTokens

Messages = Sequence[dict[str, Any]]
"""Messages in normal form."""

Place = tuple[str, str]
"""A role, or ``"reasoning"``, and ``"start"`` or ``"end"``."""

Edit = tuple[int, int, list[int]]
"""Where ids begin and end, and what comes in their place."""

EDGE = "\n\n"
LAST: Place = ("the last turn", "")
"""Where a conversation ends with an assistant's turn, whatever its text."""


class SpanEncoding:
    """Re-encodes the spans that one renderer encodes apart.

    Args:
        render_ids: The bare renderer's.
        tokenizer: Its ``decode`` leaves spaces as they are. Without a chat template nothing says that text is one.
        lock: Held while rendering and tokenizing.
    """

    def __init__(self, render_ids: Callable[..., Any], tokenizer: Any, lock: Any) -> None:
        self._render_ids, self._tokenizer, self._lock = render_ids, tokenizer, lock
        usable = chat_template(tokenizer) is not None
        usable = usable and all(callable(getattr(tokenizer, name, None)) for name in ("encode", "decode"))
        self._places: frozenset[Place] | None = None if usable else frozenset()
        self._control = control_ids(tokenizer) if usable else frozenset()

    def ids(self, ids: list[int], messages: Messages) -> list[int]:
        """The ids of these messages as one pass over each stretch of text gives them; a new list where they differ."""
        for start, end, new in self._edits(ids, messages, None):
            ids = [*ids[:start], *new, *ids[end:]]
        return ids

    def after_render(self, out: RenderedTokens, messages: Messages) -> RenderedTokens:
        """The same for tokens with attribution: an id that stands for several has the message of the last of them, and counts
        as sampled where they all do."""
        return self._rewritten(out, self._edits(out.token_ids, messages, None))

    def after_bridge(self, out: BridgedTokens, messages: Messages) -> BridgedTokens:
        """The same for what a bridge adds behind prompt and completion, which stay as they were sampled."""
        edits = self._edits(out.delta, messages, out.completion[-1])
        if not edits:
            return out
        new = self._rewritten(RenderedTokens(out.delta, out.delta_indices, out.delta_mask), edits)
        data = out.multi_modal_data
        return BridgedTokens(out.history, out.completion, new.token_ids, new.message_indices, new.sampled_mask, data)

    # Whether anything is to be done

    def _concerns(self, messages: Messages) -> bool:
        """Whether a text has white space at an edge where this renderer tokenizes apart. Positions of media are counted, so
        that conversations with media stay as they are."""
        if self._places is not None and not self._places:
            return False
        found = {place for message in messages for place in _white_edges(message)}
        if messages and messages[-1]["role"] == "assistant":
            found.add(LAST)
        if not found or any(isinstance(message["content"], list) for message in messages):
            return False
        if self._places is None:
            with self._lock:
                self._places = self._learned()
        return not self._places.isdisjoint(found)

    def _learned(self) -> frozenset[Place]:
        """Where the renderer tokenizes apart; of the made-up conversations, the first that it renders tells."""
        edges = next(filter(None, map(self._tried, _trials(EDGE))), None)
        if edges is None:
            return frozenset()
        plain = self._tried(list(_trials(""))[2])
        return frozenset(self._apart(*edges)) | ({LAST} if plain and any(self._changes(plain[0], None)) else set())

    def _tried(self, messages: Messages) -> tuple[list[int], Messages] | None:
        with rendering_probes():
            try:
                return list(self._render_ids(messages, tools=None, add_generation_prompt=False)), messages
            except Exception:  # upstream's refusals have no common type
                return None

    def _apart(self, ids: list[int], messages: Messages) -> Iterator[Place]:
        words = {text.strip(): place for message in messages for place, text in _texts(message)}
        whole = self._decoded(ids)
        for start, end, _ in self._changes(ids, None):
            left, right = self._decoded(ids[:start]), self._decoded(ids[end:])
            begin, stop = len(left), len(whole) - len(right)
            for word, place in words.items():
                at = whole.find(word)
                if at >= 0 and begin < at and stop > at - len(EDGE):
                    yield place, "start"
                if at >= 0 and begin < at + len(word) + len(EDGE) and stop > at + len(word):
                    yield place, "end"

    # What is changed

    def _edits(self, ids: list[int], messages: Messages, before: int | None) -> list[Edit]:
        """Last first. ``before`` is the id in front of them, where they aren't a whole conversation."""
        if not self._concerns(messages):
            return []
        with self._lock:
            return list(self._changes(ids, before))[::-1]

    def _changes(self, ids: list[int], before: int | None) -> Iterator[Edit]:
        control, start = before, 0
        for at in [*(index for index, each in enumerate(ids) if each in self._control), len(ids)]:
            if at - start > 1 and (control is None or control in self._control):
                old = ids[start:at]
                new = self._at_once(old, control)
                if new != old:
                    same = common_prefix(old, new)
                    tail = common_prefix(reversed(old[same:]), reversed(new[same:]))
                    yield start + same, at - tail, new[same : len(new) - tail]
            start = at + 1
            control = ids[at] if at < len(ids) else None

    def _at_once(self, run: list[int], control: int | None) -> list[int]:
        """The ids of a stretch of text behind a control token; as they are where they don't stand for their text."""
        text = self._decoded(run)
        head = "" if control is None else self._decoded([control])
        new = list(self._tokenizer.encode(head + text, add_special_tokens=False))
        if control is not None:
            if new[:1] != [control]:
                return run
            del new[0]
        return run if not self._control.isdisjoint(new) or self._decoded(new) != text else new

    def _rewritten(self, out: RenderedTokens, edits: Sequence[Edit]) -> RenderedTokens:
        if not edits:
            return out
        ids = list(out.token_ids)
        indices = None if out.message_indices is None else list(out.message_indices)
        mask = None if out.sampled_mask is None else list(out.sampled_mask)
        for start, end, new in edits:
            spans = [(start + a, start + b) for a, b in self._origins(ids[start:end], new)]
            if indices is not None:
                indices[start:end] = [indices[b - 1] for _, b in spans]
            if mask is not None:
                mask[start:end] = [all(mask[a:b]) for a, b in spans]
            ids[start:end] = new
        return RenderedTokens(ids, indices, mask, multi_modal_data=out.multi_modal_data)

    def _origins(self, old: list[int], new: list[int]) -> list[tuple[int, int]]:
        """For each new id, the old ones that it has letters of; all of them where that can't be told."""
        sizes = [[len(self._decoded([each])) for each in ids] for ids in (old, new)]
        if sum(sizes[0]) != sum(sizes[1]):  # a letter is spread over several ids
            return [(0, len(old))] * len(new)
        owners = [index for index, size in enumerate(sizes[0]) for _ in range(size)]
        spans, at = [], 0
        for size in sizes[1]:
            spans.append((owners[at], owners[at + size - 1] + 1))
            at += size
        return spans

    def _decoded(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))


def _texts(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    content, reasoning = message["content"], message.get("reasoning_content")
    if isinstance(content, str):
        yield message["role"], content
    if reasoning:
        yield "reasoning", reasoning


def _white_edges(message: dict[str, Any]) -> Iterator[Place]:
    for place, text in _texts(message):
        if text[:1].isspace():
            yield place, "start"
        if text[-1:].isspace():
            yield place, "end"


def _trials(edge: str) -> Iterator[list[dict[str, Any]]]:
    """Made-up conversations, the fullest first, whose texts all have these edges."""
    numbers = iter(range(26))

    def said(role: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": f"{edge}zq{chr(ord('a') + next(numbers))}x{edge}", **more}

    call = {"id": "functions.look:0", "type": "function", "function": {"name": "look", "arguments": '{"q": "tea"}'}}
    calling = said("assistant", reasoning_content=f"{edge}zqzx{edge}", tool_calls=[call])
    result = said("tool", tool_call_id=call["id"], name="look")
    turns, first, last = [said("user"), said("assistant"), said("user")], said("system"), said("assistant")
    yield [first, *turns, calling, result, last]
    yield [first, *turns, last]
    yield [*turns, last]
    yield turns[:1]
