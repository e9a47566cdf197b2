"""A tokenizer's chat template as a function: messages in normal form to ids, handed over in the form that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_core.errors import RenderError
from rllm_renderer_core.normal_form.tokenizer import chat_templates
from rllm_renderer_core.types import Message

from .prelude import CLOCK, NULLS, clock, drops_nulls, takes_functions
from .turn_form import TurnForm

TEMPLATE_BACKEND = "chat-template"
"""What ``resolve(backend=...)`` takes for the tokenizer's own chat template."""


class ChatTemplate:
    """``apply_chat_template`` of one tokenizer with fixed variables.

    Of several templates it is the one that serving would take: ``tool_use`` where tools are given, else ``default``, as
    transformers chooses by itself. How contents and calls are handed over is learned on first use, apart for either.
    """

    def __init__(self, tokenizer: Any, variables: dict[str, Any]) -> None:
        self._tokenizer, self._variables = tokenizer, variables
        self._forms = {declared: TurnForm(self._text, declared) for declared in (False, True)}

    def ids(
        self, messages: Sequence[Message], tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Ids of a conversation.

        Raises:
            RenderError: The template can't show it: calls, text beside calls, or a conversation without tools.
            Exception: What the template raises.
        """
        if not tools and self.needs_tools:
            raise RenderError("the tokenizer has a chat template for conversations with tools alone", fix="pass tools")
        return list(self._apply(self._forms[bool(tools)].fit(messages), tools, add_generation_prompt, tokenize=True))

    @cached_property
    def needs_tools(self) -> bool:
        """Whether there is a template for conversations with tools alone."""
        return "default" not in chat_templates(self._tokenizer)

    def _text(self, messages: Sequence[Message], tools: list[dict[str, Any]] | None) -> str:
        return str(self._apply(messages, tools, False, tokenize=False))

    def _chosen(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> dict[str, str]:
        """The source, where transformers doesn't choose it by itself (templates as a list, as a configuration has them), or
        where something has to stand before it."""
        listed = isinstance(getattr(self._tokenizer, "chat_template", None), (list, tuple))
        nulls = any("content" in message and message["content"] is None for message in messages) and self._drops_nulls
        sources = chat_templates(self._tokenizer) if listed or nulls or self._day else {}
        source = sources.get("tool_use" if tools and "tool_use" in sources else "default")
        if source is None:
            return {}
        before = (clock(source, self._day) if self._day else "") + (NULLS if nulls else "")
        return {"chat_template": before + source}

    @cached_property
    def _drops_nulls(self) -> bool:
        return drops_nulls(self._tokenizer.apply_chat_template)

    @cached_property
    def _day(self) -> Callable[[str], str] | None:
        """What prints the day, where it can't be passed as a function."""
        day: Callable[[str], str] | None = self._variables.get(CLOCK)
        return None if day is None or takes_functions(self._tokenizer.apply_chat_template) else day

    def _apply(self, messages: Sequence[Message], tools: Sequence[Any] | None, prompt: bool, *, tokenize: bool) -> Any:
        variables = {key: value for key, value in self._variables.items() if key != CLOCK} if self._day else self._variables
        return self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=None if tools is None else list(tools),
            add_generation_prompt=prompt,
            tokenize=tokenize,
            **self._chosen(messages, tools),
            **({"return_dict": False} if tokenize else {}),
            **variables,
        )
