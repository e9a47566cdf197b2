"""Completions of base models' ``role_colon``, whose turn ends with a text that no id is: upstream's own parser and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.types import ParsedResponse, Termination


def parse(upstream: Any, tokenizer: Any, ids: Sequence[int], stops: Sequence[str]) -> ParsedResponse:
    """A completion; ids that the vocabulary lacks have no text. Upstream's verdict was a bool before it was an enum."""
    body = [token for token in ids if 0 <= token < len(tokenizer)]
    message, verdict = upstream.parse_response(body)
    clean = verdict if isinstance(verdict, bool) else bool(verdict.is_clean)
    stopped = clean or any(stop in tokenizer.decode(body) for stop in stops)
    termination = Termination.STOP if clean else Termination.MALFORMED if stopped else Termination.TRUNCATED
    content = message["content"]
    if not isinstance(content, str):
        content = "".join(part["text"] for part in content if part["type"] == "text")
    return ParsedResponse(content, termination=termination)
