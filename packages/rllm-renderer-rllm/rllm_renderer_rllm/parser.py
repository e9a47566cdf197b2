"""rLLM's chat parser over a renderer, for its code that works on texts, such as distillation.

A text is given only where the tokenizer makes the renderer's own ids of it again; where it doesn't, that is an error, and the
caller takes ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rllm_renderer_training.sequences.weights import split_weights

from rllm_renderer_core.errors import RenderError
from rllm_renderer_core.types import Message

if TYPE_CHECKING:
    from .renderer import RllmRenderer

_PROBE = ({"role": "user", "content": "ping"},)


class ChatParser:
    """What rLLM calls of its ``ChatTemplateParser``.

    Args:
        renderer: Whose ids the texts are.
    """

    def __init__(self, renderer: RllmRenderer) -> None:
        self._renderer = renderer
        self.tokenizer = renderer.tokenizer

    @cached_property
    def generation_prompt(self) -> str:
        """The text that opens an assistant turn, ``"<|im_start|>assistant\\n"`` in ChatML."""
        prompt = self._renderer.render_ids(_PROBE, add_generation_prompt=True)
        messages = self._renderer.render_ids(_PROBE)
        if prompt[: len(messages)] != messages:
            raise RenderError(f"{self._renderer!r} writes messages in another way before a generation prompt")
        return self._text(prompt[len(messages) :])

    def parse(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = False,
        is_first_msg: bool = False,
        tools: Sequence[Any] | None = None,
        accumulate_reasoning: bool = False,
        **_: Any,
    ) -> str:
        """The text of a conversation, or with ``is_first_msg=False`` of one assistant turn behind its generation prompt.

        Args:
            messages: In OpenAI's form, or rLLM's.
            add_generation_prompt: Whether the next turn's generation prompt follows.
            is_first_msg: Whether these are all messages.
            tools: As declared.
            accumulate_reasoning: Keep the reasoning of earlier turns in a prompt; an assistant turn alone always has its own.

        Raises:
            RenderError: The tokenizer makes other ids of the text; the fix is ``token_input``.
            UnreachableTurnError: The format leaves out reasoning of the turn, or the model can't sample it there.
            RendererError: As ``render``.
        """
        if is_first_msg and accumulate_reasoning and add_generation_prompt:
            return self._text(self._renderer.token_input(messages, tools or None, accumulate_reasoning=True))
        if is_first_msg:
            return self._text(
                self._renderer.render_ids(messages, tools=tools or None, add_generation_prompt=add_generation_prompt)
            )
        return self.generation_prompt + self._turn(messages) + (self.generation_prompt if add_generation_prompt else "")

    def _turn(self, messages: Sequence[Message]) -> str:
        """The ids of an assistant turn that the model samples behind a question, with the stop: what is trained of it."""
        if len(messages) != 1 or messages[0].get("role") != "assistant":
            raise RenderError(
                "only an assistant turn can be rendered without what comes before it",
                fix="render the whole conversation, with is_first_msg=True",
            )
        bare, _ = split_weights(messages)
        (example,) = self._renderer.supervised([*_PROBE, *bare])
        return self._text([token for token, weight in zip(example.token_ids, example.weights, strict=True) if weight])

    def _text(self, ids: Sequence[int]) -> str:
        text = str(self.tokenizer.decode(list(ids), skip_special_tokens=False))
        if list(self.tokenizer.encode(text, add_special_tokens=False)) != list(ids):
            raise RenderError(
                "the tokenizer makes other ids of this prompt's text",
                fix="take the ids: engine.renderer.token_input(messages, tools)",
            )
        return text
