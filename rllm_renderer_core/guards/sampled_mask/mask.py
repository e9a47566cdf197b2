"""``sampled_mask`` of a render, corrected where upstreams are loose: it begins where sampling begins, and ends with the stop.

Some mark what the opener of the turn supplies (``<think>`` and its newline) as if the model had sampled it, some the newline
that the template writes behind the stop. Trained on such a mask a model learns to write what it is always given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...errors import RendererError
from ...types import Message, RenderedTokens

_PROBE: list[Message] = [{"role": "user", "content": "ping"}]


class SampledMask:
    """Masks of one renderer.

    Args:
        render_ids: The renderer's, under the core's contract.
        stops: Ids at which sampling stops.
    """

    def __init__(self, render_ids: Callable[..., Sequence[int]], stops: frozenset[int]) -> None:
        self._render_ids, self._stops = render_ids, stops
        self._opener: list[int] | None = None

    def learn(self) -> None:
        """Find out, once, what opens an assistant's turn behind a user's; nothing where the renderer refuses."""
        if self._opener is not None:
            return
        try:
            opened = list(self._render_ids(_PROBE, tools=None, add_generation_prompt=True))
            ended = list(self._render_ids(_PROBE, tools=None, add_generation_prompt=False))
        except RendererError:
            opened, ended = [], []
        self._opener = opened[len(ended) :] if opened[: len(ended)] == ended else []

    def after_render(self, out: RenderedTokens) -> RenderedTokens:
        """The same tokens; their mask is changed in place where it is wrong."""
        mask = out.sampled_mask
        if mask is None or True not in mask:
            return out
        self.learn()
        for start, end in list(_runs(mask, out.message_indices)):
            supplied = start + _supplied(out.token_ids, start, end, self._opener or ())
            stop = next((at for at in range(end - 1, start - 1, -1) if out.token_ids[at] in self._stops), end - 1)
            mask[start:supplied] = [False] * (supplied - start)
            mask[stop + 1 : end] = [False] * (end - stop - 1)
        return out


def _runs(mask: Sequence[bool | None], indices: Sequence[int | None] | None) -> Iterator[tuple[int, int]]:
    """Start and end of each run of sampled ids of one message."""
    start: int | None = None
    for at, sampled in enumerate(mask):
        if start is not None and (not sampled or (indices is not None and indices[at] != indices[start])):
            yield start, at
            start = None
        if sampled and start is None:
            start = at
    if start is not None:
        yield start, len(mask)


def _supplied(ids: Sequence[int], start: int, end: int, opener: Sequence[int]) -> int:
    """How many ids at the start of the run are the opener's: those that complete what stands before the run."""
    for before in range(min(len(opener), start), -1, -1):
        if list(ids[start - before : start]) == list(opener[:before]):
            rest = opener[before:]
            count = 0
            while count < len(rest) and start + count < end and ids[start + count] == rest[count]:
                count += 1
            return count
    return 0
