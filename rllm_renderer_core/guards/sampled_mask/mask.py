"""``sampled_mask`` of a render, corrected where upstreams are loose: too long, or too short.

Some leave out what is sampled: harmony's ``<|channel|>final<|message|>`` behind ``<|start|>assistant``, or GLM's stop, which is
the tag of the next role. Trained on such a mask a model writes what it is always given, or never learns to end its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...errors import RendererError
from ...normal_form.ids import common_prefix
from ...types import Message, RenderedTokens

_PROBE: list[Message] = [{"role": "user", "content": "ping"}]
_ANSWER: Message = {"role": "assistant", "content": "pong"}


class SampledMask:
    """Masks of one renderer.

    Args:
        render_ids: The renderer's, under the core's contract.
        stops: Ids at which sampling stops.
    """

    def __init__(self, render_ids: Callable[..., Sequence[int]], stops: frozenset[int]) -> None:
        self._render_ids, self._stops = render_ids, stops
        self._opener: list[int] | None = None
        self._replaced_stop: int | None = None

    def learn(self) -> None:
        """Find out, once, what opens an assistant's turn behind a user's, and which close of an earlier turn stands in its
        stop's place (harmony's ``<|end|>``); nothing where the renderer refuses."""
        if self._opener is not None:
            return
        opened, ended = self._ids(_PROBE, True), self._ids(_PROBE)
        self._opener = opened[len(ended) :] if opened[: len(ended)] == ended else []
        last, earlier = self._ids([*_PROBE, _ANSWER]), self._ids([*_PROBE, _ANSWER, *_PROBE])
        at = common_prefix(last, earlier)
        if at < min(len(last), len(earlier)) and last[at] in self._stops:
            self._replaced_stop = earlier[at]

    def _ids(self, messages: list[Message], add_generation_prompt: bool = False) -> list[int]:
        try:
            return list(self._render_ids(messages, tools=None, add_generation_prompt=add_generation_prompt))
        except RendererError:
            return []

    def after_render(self, out: RenderedTokens) -> RenderedTokens:
        """The same tokens; their mask is changed in place where it is wrong."""
        mask = out.sampled_mask
        if mask is None or True not in mask:
            return out
        self.learn()
        ids, indices, opener = out.token_ids, out.message_indices, self._opener or []
        for start, end in list(_runs(mask, indices)):
            supplied = start + _supplied(ids, start, end, opener)
            begin = supplied if indices is None else _behind_opener(ids, indices, start, opener) or supplied
            mask[start:supplied] = [False] * (supplied - start)
            stop = next((at for at in range(end - 1, start - 1, -1) if ids[at] in self._stops), None)
            if stop is None and end < len(ids) and ids[end] in self._stops:
                stop = end
                if indices is not None:
                    indices[end] = indices[start]
            elif stop is None:
                stop = end - 1 - (ids[end - 1] == self._replaced_stop)
            mask[begin : stop + 1] = [True] * (stop + 1 - begin)
            mask[stop + 1 : end] = [False] * (end - stop - 1)
        return out


def _runs(mask: Sequence[bool | None], indices: Sequence[int | None] | None) -> Iterator[tuple[int, int]]:
    """From the first sampled id of each message to behind its last; of each run of sampled ids without attribution."""
    start, end = None, 0
    for at in (at for at, sampled in enumerate(mask) if sampled):
        if start is not None and not _together(indices, start, end, at):
            yield start, end
            start = None
        start, end = at if start is None else start, at + 1
    if start is not None:
        yield start, end


def _together(indices: Sequence[int | None] | None, start: int, end: int, at: int) -> bool:
    """Whether a sampled id belongs to the run from ``start`` to ``end``."""
    if indices is None or indices[start] in (None, -1):
        return at == end and (indices is None or indices[at] == indices[start])
    return all(index == indices[start] for index in indices[end : at + 1])


def _behind_opener(ids: Sequence[int], indices: Sequence[int | None], start: int, opener: Sequence[int]) -> int | None:
    """Where sampling begins in the message of a run that starts further on; ``None`` where its turn opens otherwise."""
    first = start
    while first and indices[first - 1] == indices[start]:
        first -= 1
    for begin in (first, first + len(opener)):
        if opener and begin <= start and list(ids[max(0, begin - len(opener)) : begin]) == list(opener):
            return begin
    return None


def _supplied(ids: Sequence[int], start: int, end: int, opener: Sequence[int]) -> int:
    """How many ids at the start of the run are the opener's: those that complete what stands before the run."""
    for before in range(min(len(opener), start), -1, -1):
        if list(ids[start - before : start]) == list(opener[:before]):
            return common_prefix(opener[before:], ids[start:end])
    return 0
