"""Several turns of one conversation from one render, where each turn's prompt is known to be a prefix of it.

Rendering a prompt and a finished turn for each assistant message costs two renders a turn, each longer than the last. Where the
prompt of a turn starts with the sequence before it, the turns of that sequence all stand in the render that ends with the last
of them, and what is missing is where each begins and ends. Whether that is so, and which control tokens stand around a turn,
depends on the shapes of the messages, not on their texts; so it is learned on short stand-ins, by the two renders a turn: for
each shape of turn behind each shape that may come before it, and behind each pair of shapes, since what follows may change how
older turns are rendered. In the real render the same control tokens must stand in the same order, with the opener's last ids
behind them; else, and where a text spells what the format tests for, the turns are rendered one by one.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.plugin import rendering_probes
from rllm_renderer_core.probing.calls import TOOL

from ..errors import UnreachableTurnError
from .message_shapes import Shape, StandIns, message_shapes, tested_texts, texts_of
from .targets import Messages, Target, Targets

LEARN_AT = 2
"""How often a succession of shapes must have come before it is learned: what comes once is cheaper rendered turn by turn."""

KNOWN = 100_000
"""Successions remembered; when there are more, all are learned again."""

_OPENING, _NOTHING = -1, -2


@dataclass(frozen=True)
class Border:
    """What stands between two turns, and in front of the first one, as far as it is the same whatever the texts say."""

    before: tuple[int, ...]  # control ids of the turn before, its stop last; empty in front of the first turn
    controls: tuple[int, ...]  # control ids behind that, up to the last one of the next turn's opener
    rest: tuple[int, ...]  # what the opener has behind its last control id
    opener: int  # how many ids in front of the next turn belong to no message, where the backend attributes ids


@dataclass
class Conversation:
    """A conversation's assistant turns with the shapes of all that is around them."""

    turns: list[int]  # indices of the assistant messages
    opening: int  # number of the shape of what comes before the first of them, with whether tools are declared
    blocks: list[int]  # for each turn the number of its shape, with the messages up to the next turn
    spoken: list[int]  # for each turn the number of its own shape


@dataclass
class Runs:
    """What is known of the successions of one renderer."""

    targets: Targets
    learn_at: int = LEARN_AT
    _numbers: dict[Shape, int] = field(default_factory=dict)
    _samples: list[tuple[Messages, bool]] = field(default_factory=list)
    _known: dict[tuple[int, ...], Border | int | None] = field(default_factory=dict)

    @functools.cached_property
    def _tested(self) -> list[str]:
        return tested_texts(self.targets.tokenizer)

    def conversation(self, messages: Messages, tools: Sequence[Any] | None) -> Conversation | None:
        """The shapes of a conversation; ``None`` where its turns have to be rendered one by one."""
        if any(not isinstance(message["content"], str) for message in messages):
            return None
        if any(text in own for message in messages for own in texts_of(message) for text in self._tested):
            return None
        shapes = message_shapes(messages)
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        ends = [*turns[1:], len(messages)]
        return Conversation(
            turns,
            self._number(("opening", tools is not None, *shapes[: turns[0]]), messages[: turns[0]], tools is not None),
            [self._number(tuple(shapes[at:end]), messages[at:end]) for at, end in zip(turns, ends, strict=True)],
            [self._number((shapes[at],), messages[at : at + 1]) for at in turns],
        )

    def _number(self, shape: Shape, messages: Messages, declared: bool = False) -> int:
        number = self._numbers.setdefault(shape, len(self._samples))
        if number == len(self._samples):
            self._samples.append((messages, declared))
        return number

    def border(self, conversation: Conversation, start: int, at: int) -> Border | None:
        """What stands before turn ``at`` in a sequence that began with turn ``start``, both counted among the turns; ``None``
        where it isn't known that the turn goes on in it."""
        opening, spoken = conversation.opening, conversation.spoken[at]
        last = conversation.blocks[at - 1] if at else _OPENING
        border = self._learned(opening, _NOTHING, last, spoken)
        before = {*conversation.blocks[start : max(at - 1, start)]}
        if border is not None and any(self._learned(opening, older, last, spoken) != border for older in before):
            return None
        return border

    def _learned(self, *key: int) -> Border | None:
        """The border in front of the last of these shapes (opening, older, last, spoken), once they came often enough."""
        known = self._known.get(key, 0)
        if isinstance(known, int):  # how often they came
            known += 1
            if known >= self.learn_at:
                known = self._tried(*key)
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = known
        return None if isinstance(known, int) else known

    def _tried(self, opening: int, older: int, last: int, spoken: int) -> Border | None:
        """The border in front of the last of these turns, from stand-ins rendered turn by turn."""
        words, (first, declared) = StandIns(), self._samples[opening]
        messages = words.of(first)
        for number in (older, last, spoken):
            messages += words.of(self._samples[number][0]) if number >= 0 else []
        with rendering_probes():
            try:
                return self._between(messages, declared)
            except RendererError:  # a turn that can't be said, or messages that the renderer refuses
                return None

    def _between(self, messages: Messages, declared: bool) -> Border | None:
        tools, control = [TOOL] if declared else None, self.targets.control
        spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        turns = [self.targets.target(messages, index, tools) for index in spoken]
        for before, turn in zip([None, *turns], turns, strict=False):
            prompt, sequence = turn.prompt.token_ids, before.ids if before else []
            if prompt[: len(sequence)] != sequence:
                return None
            if self.targets.finished(messages, turn.index, tools)[: turn.start] != prompt:
                return None
        gap = prompt[len(sequence) :]
        at = max((place for place, token in enumerate(gap) if token in control), default=None)
        if at is None:
            return None
        return Border(
            tuple(token for token in before.completion if token in control) if before else (),
            tuple(token for token in gap if token in control),
            tuple(gap[at + 1 :]),
            next((at for at, index in enumerate(reversed(turn.indices or ())) if index != -1), 0),
        )

    # Cutting a real render

    def targets_of(self, messages: Messages, indices: Sequence[int], tools: Sequence[Any] | None) -> Iterator[Target | int]:
        """The targets of these assistant messages; an index alone where the turn has to be rendered by itself."""
        conversation = self.conversation(messages, tools)
        if conversation is None:
            yield from indices
            return
        wanted, at = frozenset(indices), 0
        numbers = [number for number, index in enumerate(conversation.turns) if index in wanted]
        while at < len(numbers):
            start, end = numbers[at], numbers[at] + 1
            first = self.border(conversation, 0, 0) if start == 0 else None
            borders: list[Border] = []
            while end <= numbers[-1] and (border := self.border(conversation, start, end)) is not None:
                borders.append(border)
                end += 1
            inside = [number for number in numbers[at:] if number < end]
            count = inside[-1] + 1 - start
            cut = None
            if count > 1 or first is not None:
                cut = self._cut(messages, conversation.turns[start : start + count], first, borders[: count - 1], tools)
            for number in inside:
                yield conversation.turns[number] if cut is None else cut[number - start]
            at += len(inside)

    def _cut(
        self, messages: Messages, turns: list[int], first: Border | None, borders: list[Border], tools: Sequence[Any] | None
    ) -> list[Target] | None:
        """One target a turn, all of one render; ``None`` where it doesn't show what was learned."""
        try:
            whole = self.targets.rendered(messages[: turns[-1] + 1], tools)
        except RendererError:
            return None
        ids, control = whole.token_ids, self.targets.control
        marks = [at for at, token in enumerate(ids) if token in control]
        place, begin = _behind(ids, marks, 0, first.controls, first.rest) if first is not None else _MISSED
        if begin < 0:
            try:
                prompt = self.targets.prompt(messages, turns[0], tools)
            except RendererError:
                return None
            begin, place = len(prompt.token_ids), bisect_left(marks, len(prompt.token_ids))
            if ids[:begin] != prompt.token_ids:
                return None
            if whole.message_indices is not None and prompt.message_indices is not None:
                whole.message_indices[:begin] = prompt.message_indices
        spans: list[tuple[int, int]] = []
        openers: list[tuple[int, int]] = [(begin - first.opener, begin)] if first is not None else []
        for border in borders:
            place, stop = _behind(ids, marks, place, border.before, ())
            if stop < begin:
                return None
            spans.append((begin, stop))
            place, begin = _behind(ids, marks, place, border.controls, border.rest)
            if begin < stop:
                return None
            openers.append((begin - border.opener, begin))
        try:
            ids[begin:] = self.targets.stopped(ids[begin:], messages[turns[-1]], turns[-1], ids[:begin])
        except UnreachableTurnError:
            return None
        spans.append((begin, len(ids)))
        indices = whole.message_indices
        if indices is not None:
            for start, end in openers:
                indices[start:end] = [-1] * (end - start)
        # That turns of such shapes have their reasoning, and what else they say, was seen where the shapes were learned.
        if not all(
            self.targets.shown(messages[index], ids[start:end]) for index, (start, end) in zip(turns, spans, strict=True)
        ):
            return None
        return [
            Target(index, ids, start, end, indices, continues=number > 0)
            for number, (index, (start, end)) in enumerate(zip(turns, spans, strict=True))
        ]


_MISSED = (0, -1)


def _behind(
    ids: Sequence[int], marks: Sequence[int], place: int, controls: Sequence[int], rest: Sequence[int]
) -> tuple[int, int]:
    """Behind these control ids and the ids that follow the last of them: the next place among the marks, and among the ids; the
    latter is -1 where other ids stand there."""
    end = place + len(controls)
    if not controls or end > len(marks) or any(ids[at] != token for at, token in zip(marks[place:end], controls, strict=True)):
        return _MISSED
    begin = marks[end - 1] + 1
    return (end, begin + len(rest)) if tuple(ids[begin : begin + len(rest)]) == tuple(rest) else _MISSED
