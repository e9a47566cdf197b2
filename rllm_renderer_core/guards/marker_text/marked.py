"""The tokenizer that completions are parsed with: what was sampled as ordinary tokens isn't taken for a control token."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ...errors import TokenizerError
from .markers import Markers, unguarded


class MarkedTokenizer:
    """The user's tokenizer, but for ``decode``, which puts a guard in each control token that was sampled as ordinary tokens.

    So a parser that decodes first, as tinker's do, finds no call in what only looks like one. ``without_guards`` takes the
    guards out of what it returns.

    Args:
        tokenizer: A tokenizer of transformers, fast or slow.

    Raises:
        TokenizerError: It doesn't tell its added tokens, or one of them is too short.
    """

    def __init__(self, tokenizer: Any) -> None:
        added = getattr(tokenizer, "added_tokens_decoder", None)
        if not isinstance(added, dict) or not added:
            raise refusal(tokenizer, "it doesn't tell its added tokens")
        self.real = tokenizer
        self._tokens = {str(token): (index, token) for index, token in added.items()}
        self.markers = Markers({text: bool(getattr(token, "special", True)) for text, (_, token) in self._tokens.items()})
        self.control = frozenset(self._tokens[text][0] for text in self.markers.texts)

    @property
    def __class__(self) -> type:  # so that ``isinstance`` sees what the backend expects
        return type(self.real)

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of a tokenizer can't be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.real,)

    def __getattr__(self, name: str) -> Any:
        if name == "real":  # not there yet, while it is unpickled or copied
            raise AttributeError(name)
        return getattr(self.real, name)

    def __len__(self) -> int:
        return len(self.real)

    def decode(self, token_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """As the tokenizer's ``decode``, with a guard in each control token that was sampled as ordinary tokens."""
        text = self.real.decode(token_ids, *args, **kwargs)
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        if not isinstance(text, str) or not self.markers.in_text(text):
            return text
        guarded = ""
        for control, run in groupby(ids, self.control.__contains__):
            if control:
                guarded += "".join(self.real.decode([token], *args, **kwargs) for token in run)
            else:
                guarded += self.markers.guarded(self.real.decode(list(run), *args, **kwargs))
        return guarded if unguarded(guarded) == text else text


def refusal(tokenizer: Any, why: str) -> TokenizerError:
    """The error of a tokenizer that can't have it."""
    return TokenizerError(
        f"marker_text='literal' can't be had with this tokenizer ({type(tokenizer).__name__}): {why}",
        fix="use marker_text='error', which refuses texts that spell a control token",
    )
