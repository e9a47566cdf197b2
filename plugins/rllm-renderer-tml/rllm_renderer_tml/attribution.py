"""Which message an id belongs to, and what was sampled: read off the control tokens, which text never becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.normal_form.ids import common_prefix

Indices = list[int | None]
Mask = list[bool | None]


def attributed(
    ids: list[int],
    messages: Sequence[Any],
    opener: list[int],
    control: frozenset[int],
    stops: Sequence[int],
    tags: frozenset[int],
    bare: int | None = None,
) -> tuple[Indices | None, Mask | None]:
    """``message_indices`` and ``sampled_mask``, where turns and messages can be paired; else ``None`` for both.

    An assistant's turn begins with the ids of the opener up to its first word, and each assistant's message has a turn. Between
    two of them, ids are of the one message that stands there, or of no single message (``None``). What was sampled begins
    behind the opener and ends with the stop.

    Args:
        ids: The whole render.
        messages: In normal form.
        opener: Ids that open an assistant's turn, from the role's tag on.
        control: Ids of control tokens.
        stops: Ids at which sampling stops.
        tags: Ids that open the turn of another role.
        bare: The id that closes results, for formats that open no turn behind them: it begins there.
    """
    header = _header(opener, control)
    openers = [at for at, token in enumerate(ids) if token == header[0] and ids[at : at + len(header)] == header]
    ends = tags.union(stops)
    # A turn of several messages has an opener before each, and ends between none of them.
    starts = [
        at
        for before, at in zip([None, *openers], openers, strict=False)
        if before is None or not ends.isdisjoint(ids[before + len(header) : at])
    ]
    if bare is not None:
        behind = [at for at, token in enumerate(ids, 1) if token == bare]
        starts = sorted([*starts, *(at for at in behind if at == len(ids) or ids[at] not in tags)])
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
        turn = ids[start:end]
        given = common_prefix(turn, opener)
        closed = len(turn) - 1
        for place in range(given, len(turn)):
            if turn[place] in ends and turn[place : place + len(header)] != header:
                # The format may have no close of its own: then the next turn's tag, which belongs to another message, ends it.
                closed = place - 1 if turn[place] in tags else place
                break
        indices += [index] * (closed + 1)
        mask += [False] * given + [True] * (closed + 1 - given)
        before = index
    if len(indices) != len(ids):
        return None, None
    return indices, mask


def _header(opener: list[int], control: frozenset[int]) -> list[int]:
    """The role's tag, with the word behind it where the tag alone says no role (``<|im_start|>assistant``)."""
    return opener[:2] if len(opener) > 1 and opener[1] not in control else opener[:1]
