"""What is kept for a tokenizer as long as it lives: the lock that all its renderers share, and what was learned about it."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_memories: weakref.WeakKeyDictionary[Any, dict[str, dict[Any, Any]]] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def lock_of(tokenizer: Any) -> Any:
    """One lock a tokenizer: fast tokenizers raise "already borrowed" when two threads set their padding or truncation."""
    with _guard:
        try:
            return _locks.setdefault(tokenizer, threading.RLock())
        except TypeError:  # neither hashable nor weakly referable: then a renderer's own lock has to do
            return threading.RLock()


def memory_of(tokenizer: Any, what: str) -> dict[Any, Any]:
    """A dict for what is learned of a tokenizer: the same one each time, or a new one where it can't be referred to weakly.

    Nothing in it may refer to the tokenizer, which it would keep alive for ever.
    """
    with _guard:
        try:
            return _memories.setdefault(tokenizer, {}).setdefault(what, {})
        except TypeError:  # neither hashable nor weakly referable
            return {}
