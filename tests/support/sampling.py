"""How much of a large set the tests take: a part that is the same on each run, or all of it under pytest's ``--whole``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")

WHOLE = False
"""Whether ``--whole`` was given. tests/conftest.py sets it before a test module is imported."""


def how_many(few: int, whole: int) -> int:
    """How many cases a generator makes: ``few``, or ``whole`` under ``--whole``."""
    return whole if WHOLE else few


def chosen(items: Iterable[T], few: Iterable[T]) -> list[T]:
    """``items`` under ``--whole``, else those of them that are also in ``few``."""
    wanted = list(few)
    return [item for item in items if WHOLE or item in wanted]


def one_each(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """The first item of each ``key(item)``, for instance one renderer a format; all items under ``--whole``."""
    listed = list(items)
    first: dict[Hashable, T] = {}
    for item in listed:
        first.setdefault(key(item), item)
    return listed if WHOLE else list(first.values())


def by_name(names: Iterable[str], few: int) -> list[str]:
    """``few`` of the names, a sample that depends on nothing but the names; all of them, in order, under ``--whole``."""
    listed = list(names)
    return listed if WHOLE else sorted(listed, key=lambda name: hashlib.sha256(name.encode()).digest())[:few]
