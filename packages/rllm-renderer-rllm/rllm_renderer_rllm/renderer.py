"""A resolved renderer as rLLM calls it: the protocol for its gateway, and prompts and parsed completions for its engines.

Two things differ from ``rllm_renderer_core.resolve``: a call that can't be run isn't among ``tool_calls`` (rLLM hands every one
of them to the agent's client, the nameless too) but stays in the content, as the text that the model wrote; and messages may
have rLLM's ``images``.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from rllm_renderer_training.sequences.example import SupervisedExamples
from rllm_renderer_training.sequences.supervised import supervised

from rllm_renderer_core.errors import UnsupportedContentError
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .messages import has_media, plain_messages, plain_tools, with_images, without_images
from .optional_settings import at_reasoning_effort
from .parser import ChatParser
from .reasoning import with_earlier_reasoning


class EngineOutput(NamedTuple):
    """A completion as ``ModelOutput`` has it.

    ``tool_calls`` are ``{"name": ..., "arguments": {...}}``: the arguments of rLLM's ``ToolCall``.
    """

    content: str
    reasoning: str
    tool_calls: list[dict[str, Any]]


class RllmRenderer:
    """The object for ``create_app(renderer=...)``, ``TokenAccumulator`` and the engines.

    Args:
        resolved: What ``rllm_renderer_core.resolve`` returned. All ids are of its tokenizer's vocabulary.

    Attributes:
        resolved: The same.
        resolution: How it was resolved.
        backend: Name of the backend; ``name`` is that backend's name of the renderer.
        has_bridge: Whether ``bridge_to_next_turn`` can return ids at all.
        tokenizer: The one that was passed in.
    """

    def __init__(self, resolved: ResolvedRenderer) -> None:
        self.resolved = resolved
        self.resolution: Resolution = resolved.resolution
        self.backend, self.name = resolved.backend, resolved.name
        self.has_bridge = resolved.has_bridge
        self.tokenizer: Any = resolved.tokenizer
        self._by_effort: dict[str, RllmRenderer] = {}

    def __repr__(self) -> str:
        return repr(self.resolved)

    def copy(self) -> RllmRenderer:
        """The same renderer over its own copy of the tokenizer, for a gateway in the process of an engine.

        One thread at a time uses a tokenizer. A long prompt that the engine renders holds it for a second; bridges by a copy
        don't wait for that. See ``RendererPool`` for one copy a thread.
        """
        return RllmRenderer(pickle.loads(pickle.dumps(self.resolved)))

    # The protocol

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids with attribution."""
        return self.resolved.render(
            plain_messages(messages), tools=plain_tools(tools), add_generation_prompt=add_generation_prompt
        )

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Messages to ids."""
        return self.resolved.render_ids(
            plain_messages(messages), tools=plain_tools(tools), add_generation_prompt=add_generation_prompt
        )

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[Any] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed; never raises. ``tool_calls`` are those that can be run, the others are part of ``content``.

        ``prompt_ids`` may have the chunks of images among its ids, as ``token_input`` has.
        """
        prompt = None if prompt_ids is None else without_images(prompt_ids)
        parsed = self.resolved.parse_response(token_ids, tools=plain_tools(tools), prompt_ids=prompt)
        runnable = {id(call) for call in parsed.runnable if isinstance(call.arguments, dict)}
        if len(runnable) == len(parsed.tool_calls):
            return parsed
        broken = "".join(call.raw for call in parsed.tool_calls if id(call) not in runnable)
        calls = [call for call in parsed.tool_calls if id(call) in runnable]
        return replace(parsed, content=parsed.content + broken, tool_calls=calls)

    def get_stop_token_ids(self) -> list[int]:
        """Ids at which a sampler must stop."""
        return self.resolved.get_stop_token_ids()

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[Any],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """The prompt and completion, and what follows them; or ``None``: render again. The reason is logged.

        The prompt may have the chunks of images among its ids, as ``token_input`` has, or their JSON: they stay in their
        places, and nothing is said of the messages that the ids belong to.
        """
        ids = without_images(previous_prompt_ids)
        turn = ids, previous_completion_ids, plain_messages(new_messages)
        bridged = self.resolved.bridge_to_next_turn(*turn, tools=plain_tools(tools), previous_message=previous_message)
        return bridged if bridged is None else with_images(previous_prompt_ids, ids, bridged)

    # Engines

    @cached_property
    def chat_parser(self) -> ChatParser:
        """For code of rLLM's that works on texts."""
        return ChatParser(self)

    @property
    def stop_sequences(self) -> list[int] | list[str]:
        """What a sampler's ``stop`` takes: stop ids, or the strings of a format that has no stop token."""
        return self.get_stop_token_ids() or self.resolved.get_stop_strings()

    def token_input(
        self,
        messages: Sequence[Message],
        tools: Sequence[Any] | None = None,
        *,
        reasoning_effort: str | None = None,
        accumulate_reasoning: bool = False,
    ) -> list[Any]:
        """The prompt for an engine's sampler, with the generation prompt.

        Args:
            messages: In OpenAI's form, or rLLM's.
            tools: As declared.
            reasoning_effort: Of this call, where it isn't the renderer's own; nothing for a model that has none.
            accumulate_reasoning: Keep the reasoning of earlier turns, as a bridge keeps it; else what the template shows.

        Returns:
            Ids; where messages have images, the chunks of the backend's own prompt, in their order.

        Raises:
            UnsupportedContentError: Images for a renderer of text; ``index`` tells the message. Or images for a backend whose
                image data are no chunks: an engine that takes ids and chunks alone would sample from bare placeholders.
            UnreachableTurnError, RenderError: ``accumulate_reasoning`` where the format can't show it.
            RendererError: As ``render``.
        """
        if reasoning_effort is not None:
            if reasoning_effort not in self._by_effort:
                self._by_effort[reasoning_effort] = RllmRenderer(at_reasoning_effort(self.resolved, reasoning_effort))
            return self._by_effort[reasoning_effort].token_input(messages, tools, accumulate_reasoning=accumulate_reasoning)
        if accumulate_reasoning:
            kept = with_earlier_reasoning(self.resolved, plain_messages(messages), plain_tools(tools))
            if kept is not None:
                return kept
        if not has_media(messages):
            return self.render_ids(messages, tools=tools, add_generation_prompt=True)
        rendered = self.render(messages, tools=tools, add_generation_prompt=True)
        chunks = getattr(rendered.multi_modal_data, "chunks", None)
        if chunks is None:
            raise UnsupportedContentError(
                f"{self.backend}:{self.name} gives images in a form of its own, not as chunks of a sampler's prompt",
                fix="renderer_backend='tinker', with image_processor=",
            )
        return list(chunks)

    def parse_completion(
        self, completion_ids: Sequence[int], token_input: Sequence[Any] | None = None, tools: Sequence[Any] | None = None
    ) -> EngineOutput:
        """A completion, parsed for ``ModelOutput``; never raises.

        Args:
            completion_ids: The sampled ids, with their stop.
            token_input: The prompt; it tells whether it opened the reasoning.
            tools: As declared; some formats need the types of arguments.
        """
        parsed = self.parse_response(list(completion_ids), tools=tools, prompt_ids=token_input)
        calls = [{"name": call.name, "arguments": call.arguments} for call in parsed.tool_calls]
        return EngineOutput(parsed.content, parsed.reasoning_content or "", calls)

    # Trainers

    def supervised(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, train: str = "all"
    ) -> SupervisedExamples:
        """The training sequences of a conversation: each turn behind the very prompt that it is sampled from.

        Arguments and errors as those of the function; a message's own ``trainable`` decides before ``train``.
        """
        return supervised(self.resolved, plain_messages(messages), tools=plain_tools(tools), train=train)
