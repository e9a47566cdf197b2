"""The adapter: an upstream renderer under the core's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_template import LearnedParser, block_parser

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.ids import IdsView
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .corrections import Numbered, Rewrite, corrections_for, opener_for
from .families import Variant, family_of
from .parsing import Parser
from .refusals import refuse_messages, refuse_tools
from .turn_ends import GemmaResponses, TurnEnd

Ids = list[int]


class PrimeRenderer:
    """One upstream renderer on one tokenizer. Takes messages and tools in the core's normal form, which is what upstream takes.

    Attributes:
        upstream: The renderer of the package ``renderers``.
        variant: Which member of the family it renders.
        traits: See ``RendererTraits``.
    """

    def __init__(self, upstream: Any, tokenizer: Any, variant: Variant, *, media: bool = False) -> None:
        self.upstream = upstream
        self.variant = variant
        self.tokenizer = tokenizer
        self._family = family = family_of(variant.family)
        self._stops = frozenset(upstream.get_stop_token_ids())
        # Harmony's reasoning is a channel, not a pair of markers; TurnEnd finds a stop inside it.
        marked = family.reasons and variant.family != "gpt-oss"
        self._in_render = corrections_for(variant, "render")
        self._in_bridge = corrections_for(variant, "bridge")
        self._opener = opener_for(variant, self._encode)
        self._parser = Parser(upstream, tokenizer, variant, self._stops)
        # Upstream gives harmony's calls without their headers, and takes those of its own tools for content; it takes Inkling's
        # reasoning before a call for content.
        self._messages = block_parser(tokenizer) if variant.family in ("gpt-oss", "inkling") else None
        self._end = TurnEnd(variant, self._stops, self._encode)
        self._gemma = GemmaResponses(upstream, self._encode) if variant.family == "gemma4" else None
        self._media_ids = tuple(getattr(upstream, "mm_token_type_id_map", None) or ()) if media else ()
        self.traits = RendererTraits(
            stop_strings=[str(tokenizer.decode([stop], skip_special_tokens=False)) for stop in sorted(self._stops)],
            takes_views=True,
            supports_media=media,  # where a processor was given
            # Kimi prints a name where there is one, else the role: one that the client didn't send would change the ids.
            fills_result_names=family.identity != "id",
            encodes_spans_apart=True,
            reasoning_ids=lambda: None if marked else (),
            second_parser=lambda: self._second_parser,
            delimiter_words=self._messages.delimiter_words if self._messages is not None else frozenset(),
        )

    def _encode(self, text: str) -> Ids:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    # Rendering

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids with attribution.

        Raises:
            MessageError: A message that the format or upstream would drop, or can't attribute to a tool.
        """
        given, numbered = self._prepared(messages, tools)
        out = self.upstream.render(given, tools=tools, add_generation_prompt=add_generation_prompt)
        ids, indices, sampled = out.token_ids, list(out.message_indices), list(out.sampled_mask)
        if numbered is not None:
            indices = [-1 if index < 0 else numbered[index][0] for index in indices]
        if add_generation_prompt:
            self._open(ids, indices, sampled, messages)
        # Upstream's empty list means that it can't tell.
        return RenderedTokens(ids, indices or None, sampled or None, out.multi_modal_data)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> Ids:
        """As ``render``, the ids alone."""
        given, _ = self._prepared(messages, tools)
        ids: Ids = self.upstream.render_ids(given, tools=tools, add_generation_prompt=add_generation_prompt)
        if add_generation_prompt:
            self._open(ids, [], [], messages)
        return ids

    def _prepared(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> tuple[list[Any], list[Numbered] | None]:
        """See ``_rewritten``; raises for what the format or upstream would drop."""
        refuse_messages(messages, self._family, self.variant.family)
        refuse_tools(tools, self._family, self.variant.family)
        return self._rewritten(list(messages), self._in_render)

    def _rewritten(self, messages: list[Any], rewrites: list[Rewrite]) -> tuple[list[Any], list[Numbered] | None]:
        """The messages as upstream should see them, and these with the caller's indices; ``None``: as they are."""
        if not rewrites:
            return messages, None
        numbered: list[Numbered] = [(index, dict(message)) for index, message in enumerate(messages)]
        for rewrite in rewrites:
            numbered = rewrite(numbered)
        return [message for _, message in numbered], numbered

    def _open(self, ids: Ids, indices: list[Any], sampled: list[Any], messages: Sequence[Message]) -> None:
        """Corrects the opener in place: the lists are upstream's own results, and may be long."""
        opener = self._opener
        if opener is None or (opener.after_tool and messages[-1]["role"] != "tool"):
            return
        for values, added in ((ids, opener.add), (indices, [-1] * len(opener.add)), (sampled, [False] * len(opener.add))):
            if values:
                del values[len(values) - opener.cut :]
                values.extend(added)

    # Parsing

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed. Never raises."""
        if self._messages is not None:
            return self._messages.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)
        return self._parser.parse(list(token_ids), tools, None if prompt_ids is None else list(prompt_ids))

    @cached_property
    def _second_parser(self) -> LearnedParser | None:
        """For completions that the first one gives up on: what is learned from the renders."""
        return LearnedParser.of(self.render_ids, self.tokenizer, self._stops)

    def get_stop_token_ids(self) -> Ids:
        return sorted(self._stops)

    # The bridge

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """Prompt and completion, and what follows, from upstream's own bridge.

        Raises:
            BridgeDeclined: With the reason.
        """
        # Not copied where they are lists: a history is long, and upstream changes neither.
        prompt, sampled = _as_list(previous_prompt_ids), _as_list(previous_completion_ids)
        if any(media in prompt for media in self._media_ids):
            raise BridgeDeclined("the previous prompt has media, whose data a bridge doesn't get")
        new = self._end.ordered(new_messages, previous_message)
        closed = self._end.closed(prompt, sampled, new)
        given, numbered = self._rewritten(new, self._in_bridge)
        if self._gemma is not None:
            out = self._gemma.bridge(prompt, closed, given, tools)
        else:
            out = self.upstream.bridge_to_next_turn(prompt, closed, given, tools=tools)
        if out is None:
            raise BridgeDeclined(f"renderers can't extend this turn of {self.variant.family}")
        ids, indices, mask = self._end.repaired(out, prompt, sampled, closed)
        if numbered is not None:
            # Upstream attributes prompt and completion to no message, like scaffolding: -1 becomes None there in the core.
            indices = [-1 if index < 0 else numbered[index][0] for index in indices]
        if self._opener is not None:
            self._open(ids, indices, mask, new)
        return RenderedTokens(ids, indices or None, mask or None, out.multi_modal_data)


def _as_list(ids: Sequence[int]) -> Ids:
    """The ids as a list, not copied where there is one behind them: upstream changes neither prompt nor completion."""
    if type(ids) is IdsView and ids.size == len(ids.ids):
        return ids.ids
    return ids if type(ids) is list else list(ids)
