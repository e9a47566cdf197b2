"""The checks of ids, tokens and stop strings; those of ids take no step of the interpreter for each id."""

from __future__ import annotations

from typing import Any

from ...errors import ContractError, TokenIdError
from ...normal_form.ids import as_ids, check_attribution, check_lengths
from ...types import RenderedTokens


def checked_ids(returned: Any, backend: str, what: str) -> list[int]:
    """Ids as a list of ``int``: arrays and tuples are converted, see ``as_ids``.

    Raises:
        ContractError: They aren't ids; the message names ``backend`` and ``what`` was called.
    """
    if returned is None:
        raise ContractError(f"backend {backend!r} returned None from {what} instead of a list of ids")
    try:
        return as_ids(returned, "ids")
    except TokenIdError as error:
        why = str(error).splitlines()[0]
        raise ContractError(f"backend {backend!r} returned from {what} what isn't a list of ids: {why}") from error


def checked_tokens(returned: Any, backend: str, messages: int) -> RenderedTokens:
    """The tokens of a ``render`` of so many messages; ``token_ids`` may be an array, the attribution has an entry for each.

    Raises:
        ContractError: They aren't; the message names ``backend``.
    """
    if not isinstance(returned, RenderedTokens):
        raise ContractError(f"backend {backend!r} returned {type(returned).__name__} instead of RenderedTokens from render")
    returned.token_ids = checked_ids(returned.token_ids, backend, "render: token_ids")
    check_lengths(returned, backend)
    check_attribution(returned.message_indices, returned.sampled_mask, backend, messages)
    return returned


def checked_stop_strings(returned: Any, backend: str) -> list[str]:
    """Stop strings as a new list.

    Raises:
        ContractError: They aren't texts, or one is empty, at which an engine would stop at once.
    """
    if isinstance(returned, (list, tuple)) and all(isinstance(text, str) and text for text in returned):
        return list(returned)
    raise ContractError(f"backend {backend!r} returned stop strings that aren't a list of texts: {returned!r}")
