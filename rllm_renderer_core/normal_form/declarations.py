"""The tools that a completion is parsed with: those of a caller's declarations that can be used.

A parse never raises. Nor may one entry that isn't a function, such as a server's own ``{"type": "web_search"}``, take their
types from all others: ``zip`` that is declared a string would become a number.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..errors import RendererError
from .messages import normalize_tools

logger = logging.getLogger("rllm_renderer")

Declared = list[dict[str, Any]] | None
"""Declarations in normal form, ``None`` where none are known."""

_SAID = 64
"""So many different reasons are logged."""


class Declarations:
    """The usable ones of what callers pass. What is left out is logged, once for each reason.

    Args:
        name: ``backend:renderer``, for what is logged.
    """

    def __init__(self, name: str) -> None:
        self._name, self._said = name, set[str]()

    def usable(self, tools: Sequence[Any] | None) -> Declared:
        """The declarations in normal form, without those that can't be used."""
        try:
            return normalize_tools(tools, self._say)
        except RendererError as error:  # nothing that could be a list of declarations
            self._say(error)
            return None

    def _say(self, error: RendererError) -> None:
        reason = str(error).splitlines()[0]
        if reason not in self._said and len(self._said) < _SAID:
            self._said.add(reason)
            logger.warning("%s parses without a declaration: %s", self._name, reason)
