"""Where turns begin and end: control tokens learned from short prompts, and by them which message each id belongs to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_core.errors import RendererError, RenderError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.types import Message

TAGS = ("user", "observation", "system", "User", "System", "im_start", "im_user", "im_system", "start", "message_user",
        "message_system", "message_tool", "tool_outputs_begin", "tool_output_begin")  # fmt: skip
"""Upstream's names of the control tokens that open a turn of a role other than the assistant's, in all formats."""

CLOSES_OF_USERS = ("im_end", "end", "end_message")
"""Upstream's names of the control tokens between a user's text and the next turn of a user."""

Indices = list[int | None]
Mask = list[bool | None]


class Turns:
    """The turns of one format. What has to be learned is learned on first use.

    Args:
        vocabulary: Upstream's own tokenizer.
        control: Ids of its control tokens.
        stop_ids: The ids at which sampling stops.
        markers: The ids that open and close reasoning.
        upstream: Messages to the ids of their prompt as upstream writes it, without corrections.
        prompt: The same with corrections.
    """

    def __init__(
        self,
        vocabulary: Any,
        control: frozenset[int],
        stop_ids: Sequence[int],
        markers: Collection[int],
        upstream: Callable[[Sequence[Message]], list[int]],
        prompt: Callable[[Sequence[Message], None], list[int]],
    ) -> None:
        self._vocabulary, self._control, self._stop_ids, self._markers = vocabulary, control, stop_ids, markers
        self._upstream, self._prompt = upstream, prompt

    def _named(self, names: Sequence[str]) -> frozenset[int]:
        known = self._vocabulary.special_tokens()
        return frozenset(int(self._vocabulary.encode_special(name)) for name in names if name in known)

    @cached_property
    def opener(self) -> list[int]:
        """Ids that open an assistant's turn behind a user's, from its role tag on."""
        ids, other = (self._upstream([{"role": "user", "content": word}]) for word in ("ping", "pong"))
        tail = ids[len(ids) - next(at for at in range(1, len(ids)) if ids[-at] != other[-at]) + 1 :]
        # What closes the user's turn comes first; the last control token that isn't about reasoning is the role's.
        tags = [at for at, token in enumerate(tail) if token in self._control and token not in self._markers]
        if not tags:
            raise RenderError("upstream opens an assistant's turn with no control token")
        closes = self._named(CLOSES_OF_USERS).union(self._stop_ids)
        return tail[next((at for at in tags if tail[at] not in closes), tags[-1]) :]

    @cached_property
    def _header(self) -> list[int]:
        """The role's tag, with the word behind it where the tag alone says no role (``<|im_start|>assistant``)."""
        return self.opener[:2] if len(self.opener) > 1 and self.opener[1] not in self._control else self.opener[:1]

    @cached_property
    def _tags(self) -> frozenset[int]:
        """Control tokens that open a turn which isn't an assistant's."""
        return self._named(TAGS)

    @cached_property
    def _after_results(self) -> int | None:
        """The control token that a turn behind results begins behind, where the format opens none there."""
        call = {"id": "functions.ping:0", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
        called: list[Message] = [
            {"role": "user", "content": "ping"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "pong", "tool_call_id": call["id"], "name": "ping"},
        ]
        try:
            last = self._prompt(called, None)[-1]
        except RendererError:
            return None
        return last if last in self._control and last not in self.opener else None

    @property
    def written(self) -> frozenset[int]:
        """Control tokens that the format can't do without: its stops, and what a short conversation shows."""
        short = self._upstream([{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}])
        return self._control.intersection([*self.opener, *short]).union(self._stop_ids)

    def without_opener(self, ids: list[int]) -> list[int]:
        """The ids up to the role tag of the turn that isn't there yet."""
        size = len(self.opener)
        return ids[: len(ids) - size] if size and ids[len(ids) - size :] == self.opener else ids

    def attributed(self, ids: list[int], messages: Sequence[Message]) -> tuple[Indices | None, Mask | None]:
        """``message_indices`` and ``sampled_mask``, where turns and messages can be paired; else ``None`` for both.

        An assistant's turn begins with the ids of the opener up to its first word, and each assistant's message has a turn.
        Between two of them, ids are of the one message that stands there, or of no single message (``None``). What was sampled
        begins behind the opener and ends with the stop.

        Args:
            ids: The whole render.
            messages: In normal form.
        """
        starts = self._starts(ids)
        spoken = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        if len(starts) not in (len(spoken), len(spoken) + 1):
            return None, None
        indices: Indices = []
        mask: Mask = []
        before = -1
        for at, start in enumerate([*starts, len(ids)]):
            index = spoken[at] if at < len(spoken) else len(messages)
            gap = range(before + 1, index)
            size = start - len(indices)
            indices += [gap[0] if len(gap) == 1 and before >= 0 else None if gap else -1] * size
            mask += [False] * size
            if at >= len(starts):
                break
            end = starts[at + 1] if at + 1 < len(starts) else len(ids)
            if index >= len(messages):
                indices += [-1] * (end - start)
                mask += [False] * (end - start)
                break
            given, closed = self._sampled(ids[start:end])
            indices += [index] * closed
            mask += [False] * given + [True] * (closed - given)
            before = index
        if len(indices) != len(ids):
            return None, None
        return indices, mask

    def _starts(self, ids: list[int]) -> list[int]:
        """Where the assistant's turns begin. A turn of several messages has an opener before each, and ends between none."""
        header, ends = self._header, self._tags.union(self._stop_ids)
        openers = [at for at, token in enumerate(ids) if token == header[0] and ids[at : at + len(header)] == header]
        starts = [
            at
            for before, at in zip([None, *openers], openers, strict=False)
            if before is None or not ends.isdisjoint(ids[before + len(header) : at])
        ]
        if self._after_results is not None:
            behind = [at for at, token in enumerate(ids, 1) if token == self._after_results]
            starts = sorted([*starts, *(at for at in behind if at == len(ids) or ids[at] not in self._tags)])
        return starts

    def _sampled(self, turn: list[int]) -> tuple[int, int]:
        """Where in a turn sampling began, and the end of its message: behind its stop, or before the next turn's tag."""
        header, ends, given = self._header, self._tags.union(self._stop_ids), common_prefix(turn, self.opener)
        for place in range(given, len(turn)):
            if turn[place] in ends and turn[place : place + len(header)] != header:
                # The format may have no close of its own: then the next turn's tag, which belongs to another message, ends it.
                return given, place if turn[place] in self._tags else place + 1
        return given, len(turn)
