"""Completions on the way back: never an exception, and an id for every call, whichever backend parses."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ToolError
from ..types import ParsedResponse, Renderer, Termination, ToolCall
from .marker_text import MarkerText
from .messages import normalize_tools
from .returned import checked_parsed

logger = logging.getLogger("rllm_renderer")

GENERATED_ID = "call_"
"""How the ids start that calls of a format without ids get."""


class ParseGuard:
    """``parse_response`` of one backend's renderer, under the core's contract.

    Args:
        upstream: The backend's renderer.
        name: ``backend:renderer``, for what is logged.
        lock: Held while ``upstream`` parses.
        text: What became of control tokens that message text spells.
    """

    def __init__(self, upstream: Renderer, name: str, lock: Any, text: MarkerText) -> None:
        self._upstream, self._name, self._lock, self._text = upstream, name, lock, text

    def parse(self, ids: list[int], tools: Sequence[Any] | None, prompt_ids: Sequence[int] | None) -> ParsedResponse:
        """A completion, parsed, each call with an id: the format's own, or one generated from the completion."""
        out = self.parse_native(ids, tools, prompt_ids)
        calls = [
            call
            if call.id is not None
            else ToolCall(call.name, call["function"]["arguments"], id=_generated_id(ids, at), raw=call.raw, status=call.status)
            for at, call in enumerate(out.tool_calls)
        ]
        return replace(out, tool_calls=calls)

    def parse_native(
        self, ids: list[int], tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion, parsed, with the ids of calls that the format itself has; ``None`` where it has none."""
        try:
            declared = normalize_tools(tools)
        except ToolError:
            declared = None
        try:
            with self._lock:
                out = self._upstream.parse_response(ids, tools=declared, prompt_ids=prompt_ids)
            return self._text.parsed(checked_parsed(out, self._name))
        except (Exception, SystemExit) as error:
            return self.unreadable(error)

    def unreadable(self, error: BaseException) -> ParsedResponse:
        """What can't be parsed, with the reason as its ``loss``; logged."""
        logger.warning("%s can't parse a completion: %s: %s", self._name, type(error).__name__, error)
        why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return ParsedResponse(termination=Termination.MALFORMED, lossless=False, loss=why)


def _generated_id(ids: list[int], at: int) -> str:
    """An id for a call of a format that has none: the same for the same completion, so that nothing depends on chance."""
    digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
    return f"{GENERATED_ID}{digest[:16]}_{at}"
