"""The cookbook's renderers that render a conversation at once, not message by message: Qwen2.5 and Kimi-K3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_template import SeamedRenderer
from rllm_renderer_tinker.renderer import TinkerRenderer

from rllm_renderer_core.types import Message


class WholeRenderer(TinkerRenderer):
    """The adapter without attribution: nothing tells which message an id belongs to."""

    render = SeamedRenderer.render

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """The conversation's ids; errors as in the adapter."""
        if add_generation_prompt:
            return super().render_ids(messages, tools=tools, add_generation_prompt=True)
        ready = self._prepared(messages, tools)
        if hasattr(self.upstream, "render_text"):
            text = self.upstream.render_text(ready, add_generation_prompt=False)
            return list(self._tokenizer.encode(text, add_special_tokens=False))
        return list(self.upstream.render_trace(ready, add_generation_prompt=False).model_input.to_ints())
