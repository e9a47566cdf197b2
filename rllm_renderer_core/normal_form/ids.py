"""Token ids as callers give them: a list, a tuple, an array of NumPy or torch, any iterable of whole numbers.

They are converted once, where they come in, so that everything behind has plain ``int`` in a plain ``list``: a stop that is a
``numpy.int64`` doesn't equal by ``is``, isn't JSON, and a one-element tensor isn't an id. All else is an error, never a guess.
"""

from __future__ import annotations

import operator
import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, TypeGuard, overload

from ..errors import ContractError, TokenIdError
from ..types import RenderedTokens

WHOLE = 8_192
"""Lists up to this size are looked through id by id. Of a longer one, which is a prompt that came from a renderer before, the
ends are, and every 64th id between: what isn't ids isn't so in one place alone, and a history's cost shows in every bridge."""

LIMIT = 2**31
"""Ids are below this where the vocabulary isn't known: engines and trainers hold them in 32 bits."""

_DTYPE = f"u{array('I').itemsize}"


def as_ids(ids: Any, what: str = "token ids", *, limit: int | None = None) -> list[int]:
    """The ids as a list of ``int``. A list of ``int`` is returned as it is, not copied: a history may be long. An ``IdsView``
    is of ids that came through here before: its list isn't checked again.

    Args:
        ids: Any iterable of whole numbers with an order.
        what: What they are, for the error.
        limit: Ids must be below it; see ``vocabulary.id_limit``.

    Raises:
        TokenIdError: Text, a mapping, a nested list, or an entry that isn't an id of the vocabulary; ``index`` tells which.
    """
    if type(ids) is IdsView:
        return ids.to_list()
    if type(ids) is not list:
        ids = _listed(ids, what)
    limit = LIMIT if limit is None else limit
    if are_ids(ids, limit):
        return ids
    return [_as_id(value, index, what, limit) for index, value in enumerate(ids)]


def last_of(wanted: Collection[int], ids: Sequence[int]) -> int | None:
    """The last id that is one of those wanted, or ``None``."""
    return next((token for token in reversed(ids) if token in wanted), None)


def are_ids(ids: list[Any], limit: int = LIMIT) -> TypeGuard[list[int]]:
    """Whether a list holds ``int`` from 0 to ``limit`` alone; of a long list as ``WHOLE`` says."""
    return _plain(ids if len(ids) <= WHOLE else [*ids[:512], *ids[512:-512:64], *ids[-512:]], limit)


class IdsView(Sequence[int]):
    """The first ids of a list, read-only and not copied: a history as backends get it. Valid until the list changes there.

    Args:
        ids: The list.
        size: How many of its ids are seen; all where left out.
    """

    __slots__ = ("ids", "size")

    def __init__(self, ids: list[int], size: int | None = None) -> None:
        self.ids, self.size = ids, len(ids) if size is None else size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        if isinstance(at, slice):
            return self.ids[slice(*at.indices(self.size))] if (at.step or 1) > 0 else self.to_list()[at]
        return self.ids[range(self.size)[at]]

    def __iter__(self) -> Iterator[int]:
        return islice(self.ids, self.size)

    def to_list(self) -> list[int]:
        """A copy, at the cost of copying a list."""
        return self.ids[: self.size]


def _listed(ids: Any, what: str) -> list[Any]:
    if isinstance(ids, (str, bytes, bytearray)):
        raise TokenIdError(f"{what} are {type(ids).__name__}: text, not ids", fix="pass the ids that the engine returned")
    if isinstance(ids, Mapping):
        fix = "pass its ['input_ids']" if "input_ids" in ids else "pass a list of ids"
        raise TokenIdError(f"{what} are a {type(ids).__name__}, not a list", fix=fix)
    to_list = getattr(ids, "tolist", None)  # an array of NumPy or torch, array.array
    if callable(to_list):
        ids = to_list()
    if isinstance(ids, Set) or not isinstance(ids, Iterable):
        raise TokenIdError(f"{what} are {type(ids).__name__}, not a list of ids", fix="pass a list of ids")
    return list(ids)


def _plain(ids: list[Any], limit: int) -> bool:
    """Whether all are ``int`` from 0 to ``limit``, without a step of the interpreter for each: a prompt has 80,000 ids."""
    if len(ids) < 64:
        return {*map(type, ids)} <= {int} and (not ids or (min(ids) >= 0 and max(ids) < limit))
    try:
        packed, total = array("I", ids), sum(ids)  # neither text, nor floats, nor negative ones get into the array
    except (TypeError, ValueError, OverflowError):
        return False
    if type(total) is not int:  # one that is like an int, as NumPy's
        return False
    numpy = sys.modules.get("numpy")  # not worth an import; where a trainer runs, it is there
    if numpy is None:
        largest, least = max(packed), [at for at, value in enumerate(packed) if value < 2]
    else:
        values = numpy.frombuffer(packed, _DTYPE)
        largest, least = int(values.max()), (values < 2).nonzero()[0].tolist()
    return largest < limit and all(type(ids[at]) is int for at in least)  # a bool is 0 or 1


def _as_id(value: Any, index: int, what: str, limit: int) -> int:
    item = getattr(value, "tolist", None)  # a scalar of NumPy or torch
    plain = item() if callable(item) else value
    if isinstance(plain, bool):
        raise TokenIdError(f"{what}: entry {index} is {plain}, not an id", fix="pass ids, not a mask", index=index)
    if isinstance(plain, (Sequence, Mapping)) and not isinstance(plain, (str, bytes)):
        fix = "pass one sequence: of a batch of one, its first row"
        raise TokenIdError(f"{what} are nested: entry {index} is a {type(plain).__name__}", fix=fix, index=index)
    try:
        out = operator.index(plain)
    except TypeError:
        raise TokenIdError(
            f"{what}: entry {index} is {_shown(value)}, not an id", fix="pass the ids that the engine returned", index=index
        ) from None
    if not 0 <= out < limit:
        why = "is negative" if out < 0 else f"is beyond the vocabulary, whose ids end below {limit}"
        raise TokenIdError(f"{what}: entry {index}, {out}, {why}", fix="cut padding and labels off", index=index)
    return int(out)


def _shown(value: Any) -> str:
    return text if len(text := repr(value)) <= 40 else f"a {type(value).__name__}"


def common_prefix(one: Iterable[object], other: Iterable[object]) -> int:
    """How many ids, or letters, two sequences begin with alike; of two reversed ones, how many they end with."""
    return sum(takewhile(bool, map(operator.eq, one, other)))


class BridgedTokens(RenderedTokens):
    """A bridge's tokens, put together when they are read: on a long history that costs more than all else.

    Over the previous prompt and completion the attribution is ``None``.

    Attributes:
        history: The previous prompt.
        completion: What was sampled from it.
        delta: What comes behind both, with its part of the attribution in ``delta_indices`` and ``delta_mask``.
    """

    def __init__(
        self,
        history: Sequence[int],
        completion: list[int],
        delta: list[int],
        delta_indices: list[int | None] | None = None,
        delta_mask: list[bool | None] | None = None,
        multi_modal_data: Any = None,
        *,
        whole: list[int] | None = None,
    ) -> None:
        self.history, self.completion, self.delta = history, completion, delta
        self.delta_indices, self.delta_mask = delta_indices, delta_mask
        self.multi_modal_data = multi_modal_data
        if whole is not None:
            self.__dict__["token_ids"] = whole

    @cached_property
    def token_ids(self) -> list[int]:  # type: ignore[override]
        # A view copies its list in one piece, where unpacking it would take a step for each id of the history.
        out = self.history.to_list() if isinstance(self.history, IdsView) else list(self.history)
        out += self.completion
        out += self.delta
        return out

    @cached_property
    def message_indices(self) -> list[int | None] | None:  # type: ignore[override]
        return self._behind_history(self.delta_indices)

    @cached_property
    def sampled_mask(self) -> list[bool | None] | None:  # type: ignore[override]
        return self._behind_history(self.delta_mask)

    def _behind_history(self, values: list[Any] | None) -> list[Any] | None:
        return None if values is None else [None] * (len(self.history) + len(self.completion)) + values


def check_lengths(out: RenderedTokens, backend: str) -> None:
    """Check that a backend's attribution has an entry for each id; ``ContractError`` where it hasn't."""
    for name in ("message_indices", "sampled_mask"):
        values = getattr(out, name)
        if values is None:
            continue
        if not isinstance(values, list):
            raise ContractError(f"backend {backend!r} returned {name} as {type(values).__name__} instead of a list")
        if len(values) != len(out.token_ids):
            raise ContractError(f"backend {backend!r}: {name} has {len(values)} entries for {len(out.token_ids)} ids")


def check_attribution(indices: Any, mask: Any, backend: str, messages: int | None) -> None:
    """Check that a backend's attribution is of messages' indices and of truth values; ``ContractError`` where it isn't."""
    try:
        known = set(indices or ())
        odd_mask = set(mask or ()) - {True, False, None}
    except TypeError as error:  # a list among them
        raise ContractError(f"backend {backend!r} returned an attribution that isn't of numbers: {error}") from error
    known.discard(None)
    if any(not isinstance(index, int) for index in known):
        raise ContractError(f"backend {backend!r} returned message_indices that aren't int: {sorted(map(repr, known))[:3]}")
    if messages is not None and known and not -1 <= min(known) <= max(known) < messages:
        raise ContractError(
            f"backend {backend!r}: message_indices reach from {min(known)} to {max(known)}, and there are {messages} messages"
        )
    if odd_mask:
        raise ContractError(f"backend {backend!r} returned a sampled_mask with {sorted(map(repr, odd_mask))[0]} in it")


def checked_bridge(
    out: Any, prompt: IdsView, given: Sequence[int], sampled: list[int], backend: str, *, messages: int | None = None
) -> BridgedTokens:
    """A bridge that starts with the previous prompt and completion, id for id, and adds to them: the prefix guarantee.

    ``given`` is what the backend got as the prompt: ``BridgedTokens`` over that very object start with it by construction, and
    nothing of it is copied or compared.

    Raises:
        ContractError: It doesn't.
    """
    if not isinstance(out, RenderedTokens):
        raise ContractError(f"backend {backend!r} returned {type(out).__name__} instead of RenderedTokens")
    whole: list[int] | None = None
    if type(out) is BridgedTokens and out.history is given and out.completion == sampled:
        delta, indices, mask = out.delta, out.delta_indices, out.delta_mask
    else:
        whole, delta = _compared(out, prompt, sampled, backend)
        size = len(whole)
        indices = None if out.message_indices is None else out.message_indices[size:]
        mask = None if out.sampled_mask is None else out.sampled_mask[size:]
    if not delta:
        raise ContractError(f"backend {backend!r} returned a bridge that adds nothing to the prompt and completion")
    delta = _as_ids(delta, backend)
    check_attribution(indices, mask, backend, messages)
    if whole is not None:
        whole.extend(delta)
    mask = [False] * len(delta) if mask is None else mask
    return BridgedTokens(prompt, sampled, delta, indices, mask, out.multi_modal_data, whole=whole)


def _compared(out: RenderedTokens, prompt: IdsView, sampled: list[int], backend: str) -> tuple[list[int], list[int]]:
    """The prompt and completion in the backend's own list, and what is behind; the history is compared once, not copied."""
    ids = out.token_ids
    if not isinstance(ids, list):  # an array, or nothing that could be compared
        out.token_ids = ids = _as_ids(ids, backend)
    check_lengths(out, backend)
    behind = ids[len(prompt) :]
    del ids[len(prompt) :]
    history = prompt.ids if prompt.size == len(prompt.ids) else prompt.to_list()  # no copy where the whole list is seen
    if history != ids or behind[: len(sampled)] != sampled:
        ids.extend(behind)
        raise ContractError(f"backend {backend!r} returned a bridge that doesn't start with the prompt and completion")
    # What compares equal may still be True for 1: a short history is copied instead of looked through.
    whole = ids if len(ids) > WHOLE and are_ids(ids) else prompt.to_list()
    whole.extend(sampled)
    return whole, behind[len(sampled) :]


def _as_ids(ids: Any, backend: str) -> list[int]:
    try:
        return as_ids(ids, "ids")
    except TokenIdError as error:
        raise ContractError(f"backend {backend!r} returned a bridge that isn't a list of ids: {error}") from error
