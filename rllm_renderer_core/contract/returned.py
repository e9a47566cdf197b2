"""What a backend's renderer may return: checked here, whichever backend it is."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..errors import ContractError
from ..types import RenderedTokens


def checked_tokens(out: Any, backend: str) -> RenderedTokens:
    """``out``, if it is a ``RenderedTokens`` whose attribution has an entry for each id.

    Raises:
        ContractError: It isn't; the message names ``backend``.
    """
    if not isinstance(out, RenderedTokens):
        raise ContractError(f"backend {backend!r} returned {type(out).__name__} instead of RenderedTokens")
    if not isinstance(out.token_ids, list):
        raise ContractError(f"backend {backend!r} returned token_ids as {type(out.token_ids).__name__} instead of a list")
    for name in ("message_indices", "sampled_mask"):
        values = getattr(out, name)
        if values is not None and len(values) != len(out.token_ids):
            raise ContractError(f"backend {backend!r}: {name} has {len(values)} entries for {len(out.token_ids)} ids")
    return out


def checked_bridge(out: Any, prompt: list[int], sampled: list[int], backend: str) -> RenderedTokens:
    """A bridge that starts with the previous prompt and completion, id for id, and adds to them: the prefix guarantee.

    Raises:
        ContractError: It doesn't.
    """
    bridged = checked_tokens(out, backend)
    ids, size = bridged.token_ids, len(prompt) + len(sampled)
    behind = ids[len(prompt) :]
    del ids[len(prompt) :]  # compared without a copy of the history, and put back
    starts_with_prompt = ids == prompt
    ids.extend(behind)
    if not starts_with_prompt or behind[: len(sampled)] != sampled:
        raise ContractError(f"backend {backend!r} returned a bridge that doesn't start with P + C")
    if len(ids) <= size:
        raise ContractError(f"backend {backend!r} returned a bridge that adds nothing to P + C")
    if not all(type(token) is int for token in ids[size:]):
        raise ContractError(f"backend {backend!r} returned a bridge with ids that aren't int")
    indices = None if bridged.message_indices is None else bridged.message_indices[size:]
    mask = [False] * (len(ids) - size) if bridged.sampled_mask is None else bridged.sampled_mask[size:]
    return BridgedTokens(ids, size, indices, mask, bridged.multi_modal_data)


class BridgedTokens(RenderedTokens):
    """A bridge's tokens, whose attribution is put together when it is read: on a long history that costs as much as all else.

    Over the previous prompt and completion, of ``known_from`` ids, the attribution is ``None``; nothing behind
    them was sampled.
    """

    def __init__(
        self, token_ids: list[int], known_from: int, indices: list[Any] | None, mask: list[Any], multi_modal_data: Any
    ) -> None:
        self.token_ids = token_ids
        self.multi_modal_data = multi_modal_data
        self._known_from, self._indices, self._mask = known_from, indices, mask

    @cached_property
    def message_indices(self) -> list[int | None] | None:  # type: ignore[override]
        return None if self._indices is None else self._behind_history(self._indices)

    @cached_property
    def sampled_mask(self) -> list[bool | None] | None:  # type: ignore[override]
        return self._behind_history(self._mask)

    def _behind_history(self, values: list[Any]) -> list[Any]:
        out: list[Any] = [None] * self._known_from
        out.extend(values)
        return out
