"""Tokenizers that can't work: what one lacks that a backend asks of it, or a class that another process doesn't have.

Both are a TokenizerError that names it, instead of an AttributeError from inside upstream or pickle.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from typing import Any

from ..errors import TokenizerError
from ..locking import lock_of


def lacking(tokenizer: Any, error: BaseException, renderer: str) -> TokenizerError | None:
    """The error to raise where ``error`` came of something that the tokenizer doesn't have; else ``None``.

    Args:
        tokenizer: The one that was passed in.
        error: What the backend raised, or what caused it.
        renderer: ``backend:renderer``.
    """
    kind = type(tokenizer).__name__
    what = None
    if isinstance(error, AttributeError) and error.name and type(error.obj).__name__ == kind:
        what = f"has no {error.name}"
    elif isinstance(error, TypeError) and f"{kind!r} has no len()" in str(error):
        what = "has no __len__"
    elif isinstance(error, NotImplementedError) and getattr(tokenizer, "is_fast", True) is False:
        what = f"is python-only, and this needs a fast one: {str(error) or type(error).__name__}"
    if what is None:
        return None
    return TokenizerError(
        f"{renderer} can't work with this tokenizer: {kind} {what}",
        fix="pass the model's tokenizer as AutoTokenizer.from_pretrained returns it, a fast one (use_fast=True)",
    )


@dataclass(frozen=True, eq=False)
class Packed:
    """A tokenizer on its way to another process, where it unpickles as itself, or as an error that names its class."""

    tokenizer: Any

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self.tokenizer)
        with lock_of(self.tokenizer):  # another thread may be rendering with it
            return _unpacked, (f"{kind.__module__}.{kind.__qualname__}", pickle.dumps(self.tokenizer))


def packed(tokenizer: Any) -> Any:
    """The tokenizer as it is pickled.

    One whose class can't be imported by its name stays as it is: only what pickles it (cloudpickle) knows how it gets there.
    """
    kind = type(tokenizer)
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return tokenizer if tokenizer is None or found is not kind or kind.__module__ == "__main__" else Packed(tokenizer)


def _unpacked(name: str, data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError) as error:
        raise TokenizerError(
            f"the renderer's tokenizer, a {name}, can't be unpickled in this process: {type(error).__name__}: {error}",
            fix=f"make {name.rpartition('.')[0]} importable here (same packages, same PYTHONPATH), or resolve in this process",
        ) from error
