"""What a plugin returns: checked here, whichever plugin it is, and converted where that is certain.

A plugin that returns text for ids or a dict for a call doesn't fail where it does so, but in a trainer, much later. The checks
of ids take no step of the interpreter for each id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..errors import ContractError, TokenIdError
from ..types import ParsedResponse, RenderedTokens, Termination, ToolCall, ToolCallStatus
from .ids import IdsView, are_ids, as_ids


def checked_ids(out: Any, backend: str, what: str) -> list[int]:
    """``out`` as a list of ``int``: arrays and tuples are converted; see ``.ids.as_ids``.

    Raises:
        ContractError: They aren't ids; the message names ``backend`` and ``what`` was called.
    """
    if out is None:
        raise ContractError(f"backend {backend!r} returned None from {what} instead of a list of ids")
    try:
        return as_ids(out, "ids")
    except TokenIdError as error:
        raise ContractError(f"backend {backend!r} returned from {what} what isn't a list of ids: {_first(error)}") from error


def checked_tokens(out: Any, backend: str, what: str = "render", *, messages: int | None = None) -> RenderedTokens:
    """``out``, if it is a ``RenderedTokens`` of ids whose attribution has an entry for each.

    Args:
        out: What the backend returned. Its ``token_ids`` may be an array: they are converted.
        backend: The backend's name.
        what: The method that returned it.
        messages: How many messages there are to attribute ids to; ``None`` leaves the indices unchecked.

    Raises:
        ContractError: It isn't; the message names ``backend``.
    """
    if not isinstance(out, RenderedTokens):
        raise ContractError(f"backend {backend!r} returned {type(out).__name__} instead of RenderedTokens from {what}")
    out.token_ids = checked_ids(out.token_ids, backend, f"{what}: token_ids")
    _check_lengths(out, backend)
    _check_attribution(out.message_indices, out.sampled_mask, backend, messages)
    return out


def _check_lengths(out: RenderedTokens, backend: str) -> None:
    for name in ("message_indices", "sampled_mask"):
        values = getattr(out, name)
        if values is None:
            continue
        if not isinstance(values, list):
            raise ContractError(f"backend {backend!r} returned {name} as {type(values).__name__} instead of a list")
        if len(values) != len(out.token_ids):
            raise ContractError(f"backend {backend!r}: {name} has {len(values)} entries for {len(out.token_ids)} ids")


def _check_attribution(indices: Any, mask: Any, backend: str, messages: int | None) -> None:
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

    Args:
        out: What the backend returned.
        prompt: The previous prompt.
        given: What the backend got as the previous prompt: where ``out`` is a :class:`BridgedTokens` over that very object,
            its ids start with it by construction, and nothing of it is copied or compared.
        sampled: The completion.
        backend: The backend's name.
        messages: How many new messages there are.

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
    delta = checked_ids(delta, backend, "a bridge")
    _check_attribution(indices, mask, backend, messages)
    if whole is not None:
        whole.extend(delta)
    mask = [False] * len(delta) if mask is None else mask
    return BridgedTokens(prompt, sampled, delta, indices, mask, out.multi_modal_data, whole=whole)


def _compared(out: RenderedTokens, prompt: IdsView, sampled: list[int], backend: str) -> tuple[list[int], list[int]]:
    """The prompt and completion in the backend's own list, and what is behind; the history is compared once, not copied."""
    ids = out.token_ids
    if not isinstance(ids, list):  # an array, or nothing that could be compared
        out.token_ids = ids = checked_ids(ids, backend, "bridge_to_next_turn: token_ids")
    _check_lengths(out, backend)
    behind = ids[len(prompt) :]
    del ids[len(prompt) :]
    if not prompt.equals(ids) or behind[: len(sampled)] != sampled:
        ids.extend(behind)
        raise ContractError(f"backend {backend!r} returned a bridge that doesn't start with the prompt and completion")
    whole = ids if are_ids(ids) else prompt.to_list()  # what compares equal may still be True for 1
    whole.extend(sampled)
    return whole, behind[len(sampled) :]


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


def checked_stop_strings(out: Any, backend: str) -> list[str]:
    """Stop strings as a new list.

    Raises:
        ContractError: They aren't texts, or one is empty, at which an engine would stop at once.
    """
    if isinstance(out, (list, tuple)) and all(isinstance(each, str) and each for each in out):
        return list(out)
    raise ContractError(f"backend {backend!r} returned stop strings that aren't a list of texts: {out!r}")


def checked_parsed(out: Any, backend: str) -> ParsedResponse:
    """``out``, if it is a ``ParsedResponse`` whose fields have the types that it declares.

    Raises:
        ContractError: It isn't.
    """
    if not isinstance(out, ParsedResponse):
        raise ContractError(f"backend {backend!r} returned {type(out).__name__} instead of ParsedResponse")
    wrong = [name for name, kinds in _FIELDS.items() if not isinstance(getattr(out, name), kinds)]
    if wrong:
        value = getattr(out, wrong[0])
        raise ContractError(f"backend {backend!r} returned a ParsedResponse whose {wrong[0]} is {type(value).__name__}")
    for at, call in enumerate(out.tool_calls):
        if not isinstance(call, ToolCall):
            raise ContractError(f"backend {backend!r}: tool_calls[{at}] is {type(call).__name__} instead of ToolCall")
        function = call.get("function")
        texts = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None,)
        if not all(isinstance(text, str) for text in (*texts, call.raw)) or not isinstance(call.status, ToolCallStatus):
            raise ContractError(f"backend {backend!r}: tool_calls[{at}] has a name, arguments, raw or status of another type")
        if call.status is ToolCallStatus.OK and not call.name:
            raise ContractError(f"backend {backend!r}: tool_calls[{at}] is OK and has no name")
    return out


_FIELDS: dict[str, Any] = {
    "content": str,
    "reasoning_content": (str, type(None)),
    "tool_calls": list,
    "termination": Termination,
    "reasoning_complete": bool,
    "lossless": bool,
    "loss": (str, type(None)),
}


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]
