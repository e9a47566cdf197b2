"""What a plugin returns: checked here, whichever plugin it is, and converted where that is certain.

A plugin that returns text for ids or a dict for a call doesn't fail where it does so, but in a trainer, much later. The checks
of ids take no step of the interpreter for each id.
"""

from __future__ import annotations

from typing import Any

from ..errors import ContractError, TokenIdError
from ..types import RenderedTokens
from .ids import as_ids, check_attribution, check_lengths


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
    check_lengths(out, backend)
    check_attribution(out.message_indices, out.sampled_mask, backend, messages)
    return out


def checked_stop_strings(out: Any, backend: str) -> list[str]:
    """Stop strings as a new list.

    Raises:
        ContractError: They aren't texts, or one is empty, at which an engine would stop at once.
    """
    if isinstance(out, (list, tuple)) and all(isinstance(each, str) and each for each in out):
        return list(out)
    raise ContractError(f"backend {backend!r} returned stop strings that aren't a list of texts: {out!r}")


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]
