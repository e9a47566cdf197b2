"""Completions, parsed."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.types import ParsedResponse, Termination


class CompletionParser:
    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer

    def parse(self, ids: list[int], tools: Any, prompt: list[int] | None) -> ParsedResponse:
        stop = self._renderer.get_stop_token_ids()
        end = next((at for at, token in enumerate(ids) if token in stop), None)
        body = ids if end is None else ids[:end]
        try:
            text = self._renderer.tokenizer.decode(body)
        except Exception:
            text = ""
        return ParsedResponse(text, termination=Termination.TRUNCATED if end is None else Termination.STOP)
