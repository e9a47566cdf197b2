"""A tokenizer's own chat template as a renderer, with the seam as its bridge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..contract.messages import refuse_media
from ..errors import BridgeDeclined
from ..plugin import TEMPLATE_BACKEND
from ..types import Message, ParsedResponse, RenderedTokens, Termination
from ..vocabulary import control_ids, eos_ids, reasoning_ids
from .call_form import CallForm
from .seam import SeamBridge

NO_BRIDGE = "a chat template of unknown make proves no bridge"
BRIDGE_FIX = "template_bridge=True has each bridge proven by experiment"


class ChatTemplateRenderer:
    """A tokenizer's ``apply_chat_template`` behind the protocol.

    Attribution is ``None``: a template doesn't tell which message a token belongs to. Parsing knows the reasoning markers
    and the stops alone; what the model writes as tool calls stays in the content.
    """

    takes_views = True
    wants_result_names = False  # a template gets the messages that serving would pass to it

    def __init__(self, tokenizer: Any, variables: dict[str, Any], *, bridge: bool) -> None:
        self._tokenizer = tokenizer
        self._variables = variables
        self._bridge = bridge
        self.reasoning_ids = reasoning_ids(tokenizer)

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        return RenderedTokens(self.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt))

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        refuse_media(messages, TEMPLATE_BACKEND)
        ids = self._apply(self._call_form.fit(messages), tools, add_generation_prompt, tokenize=True)
        return list(ids)

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        ids = list(token_ids)
        stops = set(self.get_stop_token_ids())
        at = next((index for index, token in enumerate(ids) if token in stops), None)
        body = ids if at is None else ids[:at]
        reasoning, content, complete = self._split_reasoning(body, list(prompt_ids or ()))
        if at is None:
            termination = Termination.TRUNCATED
        else:
            termination = Termination.STOP if complete and at == len(ids) - 1 else Termination.MALFORMED
        return ParsedResponse(content, reasoning, [], termination, complete)

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stop_ids)

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        if not self._bridge:
            raise BridgeDeclined(NO_BRIDGE, fix=BRIDGE_FIX)
        return self._seam.bridge_to_next_turn(
            previous_prompt_ids,
            previous_completion_ids,
            new_messages,
            tools=tools,
            previous_message=previous_message,
        )

    @cached_property
    def _stop_ids(self) -> list[int]:
        return self._seam_over(eos_ids(self._tokenizer)).turn_ends()

    @cached_property
    def _seam(self) -> SeamBridge:
        return self._seam_over(self._stop_ids)

    def _seam_over(self, stop_ids: Sequence[int]) -> SeamBridge:
        return SeamBridge(
            lambda messages, tools: self.render_ids(messages, tools=tools, add_generation_prompt=True),
            stop_ids,
            control_ids(self._tokenizer),
            named_results=False,
        )

    @cached_property
    def _call_form(self) -> CallForm:
        return CallForm.learn(lambda messages: str(self._apply(messages, None, False, tokenize=False)))

    def _apply(self, messages: Sequence[Message], tools: Sequence[Any] | None, opener: bool, *, tokenize: bool) -> Any:
        return self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=None if tools is None else list(tools),
            add_generation_prompt=opener,
            tokenize=tokenize,
            **({"return_dict": False} if tokenize else {}),
            **self._variables,
        )

    def _split_reasoning(self, body: list[int], prompt: list[int]) -> tuple[str | None, str, bool]:
        if not self.reasoning_ids:
            return None, self._decode(body), True
        opening, closing = self.reasoning_ids
        opened = next((token == opening for token in reversed(prompt) if token in (opening, closing)), False)
        start = 0
        if not opened and opening in body:
            start = body.index(opening) + 1
            opened = not self._decode(body[: start - 1]).strip()
        if closing in body[start:] and (opened or not prompt):
            end = body.index(closing, start)
            return self._decode(body[start:end]).strip("\n") or None, self._decode(body[end + 1 :]).lstrip("\n"), True
        if opened:
            return self._decode(body[start:]).strip("\n") or None, "", False
        return None, self._decode(body), True

    def _decode(self, ids: list[int]) -> str:
        try:
            return str(self._tokenizer.decode(ids, skip_special_tokens=False)) if ids else ""
        except Exception:  # ids outside the vocabulary: the overflow has no text
            return ""
