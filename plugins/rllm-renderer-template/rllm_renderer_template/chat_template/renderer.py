"""A tokenizer's own chat template as a renderer, with ``SeamBridge`` as its bridge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.messages import refuse_media
from rllm_renderer_core.normal_form.tokenizer import chat_template, control_ids, eos_ids
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.probing.calls import QUESTION, TOOL
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from ..blocks.formats import block_parser
from ..blocks.parser import BlockParser
from ..parser.learned import LearnedParser
from ..seam.bridge import SeamBridge
from ..seam.renderer import SeamedRenderer
from .attribution import Attribution
from .response_template import engine
from .shipped_parser import ShippedParser
from .template import TEMPLATE_BACKEND, ChatTemplate
from .template_parser import learned_parser


class ChatTemplateRenderer(SeamedRenderer):
    """A tokenizer's ``apply_chat_template`` behind the protocol.

    Attribution is learned by renders, ``None`` where they don't prove it (see ``Attribution``). Completions are parsed by
    what the template shows, as far as round trips prove it (see ``LearnedParser``). ``no_bridge`` is why every bridge is
    declined, ``None`` where each is tried.
    """

    def __init__(self, tokenizer: Any, variables: dict[str, Any], *, no_bridge: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._variables = variables
        self._template = ChatTemplate(tokenizer, variables)
        self._no_bridge = no_bridge

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        refuse_media(messages, TEMPLATE_BACKEND)
        return self._attribution.render(messages, tools, add_generation_prompt=add_generation_prompt)

    @cached_property
    def _attribution(self) -> Attribution:
        return Attribution(self._template.ids, self._stop_ids)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        refuse_media(messages, TEMPLATE_BACKEND)
        return self._template.ids(messages, tools, add_generation_prompt)

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        return self._reader.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)

    @cached_property
    def _reader(self) -> BlockParser | ShippedParser | LearnedParser:
        return self.messages or self.shipped or self.parser

    @cached_property
    def messages(self) -> BlockParser | None:
        """What reads completions of a template that writes harmony, of whose forms a render shows but few."""
        source = chat_template(self._tokenizer) or ""
        written = all(mark in source for mark in ("<|start|>", "<|channel|>", "<|message|>", "<|call|>"))
        return block_parser(self._tokenizer) if written else None

    @property
    def traits(self) -> RendererTraits:
        """See ``RendererTraits``."""
        return RendererTraits(
            lazy_stops=True,
            takes_views=True,
            fills_result_names=False,  # a template gets the messages that serving would pass to it
            reasoning_ids=lambda: self.parser.reasoning_ids,  # as the template shows them, not as the vocabulary has them
            second_parser=lambda: self.parser if self._reader is not self.parser else None,
            delimiter_words=self.messages.delimiter_words if self.messages is not None else frozenset(),
            why_no_tool_calls=lambda: self.parser.why_no_tool_calls if self._reader is self.parser else None,
        )

    def get_stop_token_ids(self) -> list[int]:
        """The tokenizer's, with those that history shows behind a turn of text or of calls (Gemma's ``<|tool_response>``)."""
        return sorted(self.parser.stop_ids)

    @cached_property
    def parser(self) -> LearnedParser:
        """What reads completions; learned on first use, once a tokenizer and template."""
        return learned_parser(self._tokenizer, self._variables, self._stop_ids)

    @cached_property
    def shipped(self) -> ShippedParser | None:
        """What reads completions by the response template that the checkpoint ships; ``None`` where none is proven."""
        template = getattr(self._tokenizer, "response_template", None)
        if template is None or engine() is None:
            return None
        try:
            prompt = self.render_ids([QUESTION], add_generation_prompt=True)
        except Exception:  # a template that wants more than a user's message
            return None
        shipped = ShippedParser(template, self._tokenizer, self.parser, prompt)
        return shipped if shipped.why_not is None else None

    def why_no_bridge(self) -> str | None:
        """Why not even a plain message or result can be bridged over this template; ``None`` where one can."""
        return self._seam_over(self._stop_ids).why_not(self._least_tools)

    @cached_property
    def _stop_ids(self) -> list[int]:
        return self._seam_over(eos_ids(self._tokenizer)).turn_ends(self._least_tools)

    @property
    def _least_tools(self) -> list[dict[str, Any]] | None:
        return [TOOL] if self._template.needs_tools else None

    @cached_property
    def seam(self) -> SeamBridge:
        """Declines each bridge where ``no_bridge`` was given."""
        if self._no_bridge is not None:
            raise BridgeDeclined(self._no_bridge)
        return self._seam_over(self._stop_ids)

    def _seam_over(self, stop_ids: Sequence[int]) -> SeamBridge:
        return SeamBridge(self.prompt_ids, stop_ids, control_ids(self._tokenizer), named_results=False)
