"""The lock that all renderers of a tokenizer share."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


def lock_of(tokenizer: Any) -> Any:
    """One lock a tokenizer: fast tokenizers raise "already borrowed" when two threads set their padding or truncation."""
    with _locks_guard:
        try:
            return _locks.setdefault(tokenizer, threading.RLock())
        except TypeError:  # neither hashable nor weakly referable: then a renderer's own lock has to do
            return threading.RLock()
