"""Which message each id of a prompt belongs to, and which ids the model would have sampled: learned for any renderer.

Messages are altered one at a time: the ids that change are that message's. What follows them up to the next message is split
by the render of the conversation that ends there: what both put behind the message closes it, the rest opens the next one. A
turn was sampled from the prompt that all before it renders to; where the prompt doesn't start with that, the turn isn't
what would be sampled, and nothing is claimed. Only ids are compared.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.probing.calls import ANSWER, QUESTION
from rllm_renderer_core.types import RenderedTokens

from ..seam.probe_turns import ALTERED

RenderFull = Callable[[list[dict[str, Any]], "list[dict[str, Any]] | None", bool], Sequence[int]]
"""Messages and tools, both in normal form, and whether to add the generation prompt, to ids."""


class Unproven(Exception):
    """The renders don't tell the messages apart."""


@dataclass
class Conversation:
    """A conversation without a generation prompt: its ids, and where each message's own begin and end to show."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    ids: list[int]
    spans: list[tuple[int, int]] = field(default_factory=list)
    starts: list[Any] = field(default_factory=list)  # of the messages with their headers; the first is None if that isn't known


class Attribution:
    """Attribution of what ``render`` renders, with the ids at which sampling stops. It costs a few renders a message."""

    def __init__(self, render: RenderFull, stop_ids: Iterable[int]) -> None:
        self._render, self._stops = render, frozenset(stop_ids)

    def render(
        self, messages: Sequence[Any], tools: Sequence[Any] | None = None, *, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """The rendered ids with ``message_indices`` and ``sampled_mask``, as far as renders prove them.

        Raises:
            Exception: What ``render`` raises for this conversation.
        """
        conversation = Conversation([dict(message) for message in messages], list(tools) if tools else None, [])
        ids = list(self._render(conversation.messages, conversation.tools, add_generation_prompt))
        try:
            closed = list(self._render(conversation.messages, conversation.tools, False)) if add_generation_prompt else ids
            conversation.ids = closed
            if ids[: len(closed)] != closed or not messages:
                raise Unproven
            self._split(conversation)
            indices = self._indices(conversation)
            mask = self._mask(conversation, indices)
        except (Unproven, RendererError):
            return RenderedTokens(ids)
        added = len(ids) - len(closed)
        return RenderedTokens(ids, [*indices, *[-1] * added], [*mask, *[False] * added])

    def _split(self, conversation: Conversation) -> None:
        """Finds spans and starts.

        Raises:
            Unproven: A message doesn't show, or shows within another's ids.
        """
        conversation.spans = [self._span(conversation, at) for at in range(len(conversation.messages))]
        edges = [edge for span in conversation.spans for edge in span]
        if edges != sorted(edges):
            raise Unproven
        conversation.starts = [self._first(conversation)]
        for at in range(1, len(conversation.messages)):
            end, following = conversation.spans[at - 1][1], conversation.spans[at][0]
            gap = conversation.ids[end:following]
            try:
                start = end + common_prefix(self._trailer(conversation, at), gap)
            except Unproven:  # a template may refuse to end there
                header = self._header(conversation, at)
                if gap[len(gap) - len(header) :] != header:
                    raise
                start = following - len(header)
            if conversation.messages[at - 1]["role"] == "assistant":
                # Some turns are ended by the tag of the next role: sampled, it belongs to the turn.
                stop = self._stop(conversation, at - 1)
                start = start if stop is None else max(start, stop + 1)
            conversation.starts.append(start)

    def _span(self, conversation: Conversation, at: int) -> tuple[int, int]:
        """The ids that change with any part of a message."""
        ids, edges = conversation.ids, set[int]()
        for altered in _alterations(conversation.messages[at]):
            try:
                messages = [*conversation.messages[:at], altered, *conversation.messages[at + 1 :]]
                other = self._ids(messages, conversation.tools)
            except Unproven:  # this part can't be altered, as a template may refuse text beside calls
                continue
            if other != ids:
                edges |= {common_prefix(ids, other), len(ids) - common_prefix(reversed(ids), reversed(other))}
        if not edges:
            raise Unproven
        return min(edges), max(edges)

    def _part(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> Conversation:
        return Conversation(messages, tools, self._ids(messages, tools))

    def _trailer(self, conversation: Conversation, count: int) -> list[int]:
        """What ends the conversation of the first ``count`` messages behind the last one's own ids."""
        part = self._part(conversation.messages[:count], conversation.tools)
        return part.ids[self._span(part, count - 1)[1] :]

    def _first(self, conversation: Conversation) -> int | None:
        """Where the first message starts: with the header that it has elsewhere; ``None`` where that can't be told."""
        own = conversation.spans[0][0]
        try:
            header = self._header(conversation, 0)
        except Unproven:
            return None
        return own - len(header) if conversation.ids[own - len(header) : own] == header else None

    def _header(self, conversation: Conversation, at: int) -> list[int]:
        """What opens a message like this one behind an assistant turn, up to its own ids."""
        probe = [QUESTION, {"role": "assistant", "content": ANSWER}, conversation.messages[at]]
        other = self._part(probe, conversation.tools)
        end, following = self._span(other, 1)[1], self._span(other, 2)[0]
        if following < end:
            raise Unproven
        gap = other.ids[end:following]
        return gap[common_prefix(self._trailer(other, 2), gap) :]

    def _stop(self, conversation: Conversation, at: int) -> int | None:
        """The first stop behind a message's own ids and before those of the next."""
        until = len(conversation.ids) if at + 1 == len(conversation.messages) else conversation.spans[at + 1][0]
        return next((at for at in range(conversation.spans[at][1], until) if conversation.ids[at] in self._stops), None)

    def _ids(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, generation_prompt: bool = False
    ) -> list[int]:
        try:
            return list(self._render(messages, tools, generation_prompt))
        except Exception as error:
            raise Unproven from error

    def _indices(self, conversation: Conversation) -> list[int | None]:
        first, *later = conversation.starts
        starts = [conversation.spans[0][0] if first is None else first, *later, len(conversation.ids)]
        indices: list[int | None] = [None if first is None else -1] * starts[0]
        for at, (start, end) in enumerate(itertools.pairwise(starts)):
            indices += [at] * (end - start)
        return indices

    def _mask(self, conversation: Conversation, indices: list[int | None]) -> list[bool | None]:
        """Of each assistant turn, from the end of its prompt to its stop; ``None`` where it wouldn't be sampled so."""
        mask: list[bool | None] = [False] * len(indices)
        for at, message in enumerate(conversation.messages):
            if message["role"] != "assistant":
                continue
            start = indices.index(at)
            behind = len(indices) - indices[::-1].index(at)
            own, stop, prompt = conversation.spans[at][1], self._stop(conversation, at), self._prompt(conversation, at)
            if prompt is None or not start <= prompt <= own:
                mask[start:behind] = [None] * (behind - start)
                continue
            end = own if stop is None else stop + 1
            mask[prompt:end] = [True] * (end - prompt)
            if stop is None:  # history closes the turn by another token than the sampled one, or not at all
                mask[own:behind] = [None] * (behind - own)
        return mask

    def _prompt(self, conversation: Conversation, at: int) -> int | None:
        """Length of the prompt that the turn would be sampled from, if the conversation starts with it."""
        try:
            prompt = self._ids(conversation.messages[:at], conversation.tools, generation_prompt=True)
        except Unproven:
            return None
        return len(prompt) if conversation.ids[: len(prompt)] == prompt else None


def _alterations(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message with each of its parts altered alone, at both of its ends where it is text."""
    calls = message.get("tool_calls") or []
    for key in ("reasoning_content", "content"):
        if isinstance(message.get(key), str) and (message[key] or not calls):
            yield {**message, key: f"{ALTERED}{message[key]}{ALTERED}"}
    for place, call in enumerate(calls):
        function = call["function"]
        arguments = json.dumps({**json.loads(function["arguments"]), ALTERED: ALTERED}, ensure_ascii=False)
        altered = {**call, "function": {**function, "arguments": arguments}}
        yield {**message, "tool_calls": [*calls[:place], altered, *calls[place + 1 :]]}
