"""The renderer: a role's tag, the text, an end; a call is its JSON behind a tag of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllm_renderer_template import SeamBridge
from rllm_renderer_template.seam.renderer import SeamedRenderer

from rllm_renderer_core import ParsedResponse, RenderedTokens, RendererTraits, Termination, ToolCall, ToolCallStatus
from rllm_renderer_core.types import Message

SYSTEM, USER, ASSISTANT, TOOL, CALL, END = range(6)
TAGS = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}
FIRST = 16


def encode(text: str) -> list[int]:
    return [FIRST + ord(character) for character in text]


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(token - FIRST) for token in ids if FIRST <= token < FIRST + 0xD800)


class Rot13Renderer(SeamedRenderer):
    """Renders and parses by hand, and bridges by the core's experiment."""

    traits = RendererTraits(takes_views=True, reasoning_ids=lambda: ())

    def __init__(self) -> None:
        self._seam = SeamBridge(self.prompt_ids, [END], range(6))

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        ids: list[int] = [SYSTEM, *encode(json.dumps(list(tools))), END] if tools else []
        indices: list[int | None] = [-1] * len(ids)
        mask: list[bool | None] = [False] * len(ids)
        for index, message in enumerate(messages):
            body = encode(message["content"])
            for call in message.get("tool_calls") or ():
                body += [CALL, *encode(json.dumps([call["function"]["name"], call["function"]["arguments"]]))]
            sampled = message["role"] == "assistant"
            ids += [TAGS[message["role"]], *body, END]
            indices += [index] * (len(body) + 2)
            mask += [False, *[sampled] * (len(body) + 1)]
        if add_generation_prompt:
            ids, indices, mask = [*ids, ASSISTANT], [*indices, -1], [*mask, False]
        return RenderedTokens(ids, indices, mask)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        ids = list(token_ids)
        at = ids.index(END) if END in ids else len(ids)
        starts = [index for index in range(at) if ids[index] == CALL]
        text = decode(ids[: starts[0] if starts else at])
        calls = [self._call(decode(ids[start:end])) for start, end in zip(starts, [*starts[1:], at], strict=False)]
        whole = {len(ids): Termination.TRUNCATED, len(ids) - 1: Termination.STOP}.get(at, Termination.MALFORMED)
        return ParsedResponse(text, None, calls, whole)

    def _call(self, raw: str) -> ToolCall:
        try:
            name, arguments = json.loads(raw)
            return ToolCall(name, arguments, raw=raw)
        except (ValueError, TypeError):
            return ToolCall("", raw, raw=raw, status=ToolCallStatus.INVALID_JSON)

    def get_stop_token_ids(self) -> list[int]:
        return [END]

    @property
    def seam(self) -> SeamBridge:
        return self._seam

    def __reduce__(self) -> tuple[Any, ...]:
        return Rot13Renderer, ()
