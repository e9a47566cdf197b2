"""How much of a large set the tests take: a fixed part by default, all of it under ``RENDERER_WHOLE=1``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

WHOLE = bool(os.environ.get("RENDERER_WHOLE"))


def every(step: int, items: Iterable[T]) -> list[T]:
    """Every ``step``-th item, or all: the same ones on each run."""
    listed = list(items)
    return listed if WHOLE else listed[::step]
