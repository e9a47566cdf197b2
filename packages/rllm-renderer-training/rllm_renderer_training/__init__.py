"""From rollouts and conversations to what a trainer takes: ``Rollout``, ``supervised``, their exports, data sets in bulk.

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import RolloutError as RolloutError
    from .errors import UnreachableTurnError as UnreachableTurnError
    from .rollout.rollout import Rollout as Rollout
    from .rollout.segment import Decline as Decline
    from .rollout.segment import Segment as Segment
    from .sequences.example import SupervisedExample as SupervisedExample
    from .sequences.supervised import supervised as supervised

__version__ = "0.1.0"

_MODULE = {
    "Rollout": "rollout.rollout",
    "Segment": "rollout.segment",
    "Decline": "rollout.segment",
    "supervised": "sequences.supervised",
    "SupervisedExample": "sequences.example",
    "RolloutError": "errors",
    "UnreachableTurnError": "errors",
}

__all__ = ["Decline", "Rollout", "RolloutError", "Segment", "SupervisedExample", "UnreachableTurnError", "supervised"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE[name]}", __name__), name)
    globals()[name] = value
    return value
