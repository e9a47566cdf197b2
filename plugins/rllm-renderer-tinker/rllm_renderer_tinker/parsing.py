"""Completions back to messages: upstream's parser, and what it leaves out."""
from __future__ import annotations

from typing import Any

from rllm_renderer_core.types import ParsedResponse, Termination, ToolCall, ToolCallStatus


class CompletionParser:
    def __init__(self, upstream: Any, tokenizer: Any, stop_ids: list[int], stop_strings: list[str], opener: list[int]) -> None:
        self.u = upstream
        self.stops = set(stop_ids)

    def parse(self, ids: list[int], tools: Any, prompt_ids: list[int] | None) -> ParsedResponse:
        m, _ = self.u.parse_response(ids)
        c = m["content"]
        text = c if isinstance(c, str) else "".join(p.get("text", "") for p in c)
        r = "" if isinstance(c, str) else "".join(p.get("thinking", "") for p in c)
        calls = [ToolCall(t.function.name, t.function.arguments, id=t.id) for t in m.get("tool_calls") or []]
        return ParsedResponse(text, r or None, calls)
