"""What renderers share that give ids alone: no attribution, and ``SeamBridge`` as their bridge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, RenderedTokens

from .bridge import SeamBridge


class SeamedRenderer(ABC):
    """The base of a renderer whose ``render_ids`` is all that is known of its format."""

    @property
    def traits(self) -> RendererTraits:
        """See ``RendererTraits``; a subclass replaces what it knows."""
        return RendererTraits(takes_views=True)  # SeamBridge never copies the previous prompt

    @abstractmethod
    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """See ``Renderer``."""

    @property
    @abstractmethod
    def seam(self) -> SeamBridge:
        """The bridge over ``prompt_ids``."""

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> list[int]:
        """The ids of a prompt, as the bridge renders its probe conversations."""
        return self.render_ids(messages, tools=tools, add_generation_prompt=True)

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """The ids without attribution: nothing tells which message an id belongs to."""
        return RenderedTokens(self.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt))

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """What ``SeamBridge`` appends; a ``BridgeDeclined`` where it can't be proven."""
        return self.seam.bridge_to_next_turn(
            previous_prompt_ids, previous_completion_ids, new_messages, tools=tools, previous_message=previous_message
        )
