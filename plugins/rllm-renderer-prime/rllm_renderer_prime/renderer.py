"""The adapter: an upstream renderer under the core's protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_template.blocks.formats import block_parser
from rllm_renderer_template.parser.learned import LearnedParser

from rllm_renderer_core.errors import BridgeDeclined, MessageError, ToolError
from rllm_renderer_core.normal_form.ids import IdsView
from rllm_renderer_core.normal_form.pairing import in_call_order, places_among, results_in
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .corrections import Numbered, Rewrite, corrections_for, is_query, opener_for
from .families import Variant, family_of
from .parsing import Parser
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
        self._family = family_of(variant.family)
        self._stops = frozenset(upstream.get_stop_token_ids())
        # Harmony's reasoning is a channel, not a pair of markers; TurnEnd finds a stop inside it.
        marked = self._family.reasons and variant.family != "gpt-oss"
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
            fills_result_names=self._family.identity != "id",
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
        self._refuse_messages(messages)
        self._refuse_tools(tools)
        numbered = self._rewritten(messages, self._in_render)
        out = self.upstream.render(
            list(messages) if numbered is None else [message for _, message in numbered],
            tools=tools,
            add_generation_prompt=add_generation_prompt,
        )
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
        self._refuse_messages(messages)
        self._refuse_tools(tools)
        numbered = self._rewritten(messages, self._in_render)
        ids: Ids = self.upstream.render_ids(
            list(messages) if numbered is None else [message for _, message in numbered],
            tools=tools,
            add_generation_prompt=add_generation_prompt,
        )
        if add_generation_prompt:
            self._open(ids, [], [], messages)
        return ids

    def _refuse_messages(self, messages: Sequence[Message]) -> None:
        if not messages:
            raise MessageError("there is no message to render")
        roles = self._family.roles
        if self._family.needs_user and not any(is_query(message) for message in messages):
            raise MessageError(
                f"there is no message of a user's, and {self.variant.family} needs one", fix="add a user message"
            )
        for index, message in enumerate(messages):
            role = message["role"]
            if roles and role not in roles:
                raise MessageError(
                    f"message {index} has the role {role!r}, which {self.variant.family} doesn't have",
                    fix=f"use one of {', '.join(sorted(roles))}",
                    index=index,
                )
            if role == "tool" and self._family.identity == "name" and not message.get("name"):
                raise MessageError(
                    f"message {index} (tool) has no name and no id of a call before it, and {self.variant.family} writes the "
                    "tool's name",
                    fix="give it the tool_call_id of its call, or a name",
                    index=index,
                )

    def _refuse_tools(self, tools: Sequence[Any] | None) -> None:
        for index, tool in enumerate(tools or () if self._family.escapes_tools else ()):
            parameters = tool["function"].get("parameters") or {}
            parts = [value for key, value in parameters.items() if key not in ("properties", "type")]
            for each in (parameters.get("properties") or {}).values():
                parts += [value for key, value in each.items() if key not in ("type", "description")]
            if any(json.dumps(part) != json.dumps(part, ensure_ascii=False) for part in parts if not isinstance(part, str)):
                raise ToolError(
                    f"tool {index} ({tool['function']['name']}): the package 'renderers' escapes letters beyond ASCII in its "
                    f"parameters, which the template of {self.variant.family} writes as they are",
                    fix="write them in ASCII, or choose another backend=",
                    index=index,
                )

    def _rewritten(self, messages: Sequence[Message], rewrites: list[Rewrite]) -> list[Numbered] | None:
        """The messages as upstream should see them, or ``None``: as they are."""
        if not rewrites:
            return None
        numbered: list[Numbered] = [(index, dict(message)) for index, message in enumerate(messages)]
        for rewrite in rewrites:
            numbered = rewrite(numbered)
        return numbered

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
        new = self._ready(prompt, new_messages, previous_message)
        closed = self._end.closed(prompt, sampled, new)
        numbered = self._rewritten(new, self._in_bridge) if self._in_bridge else None
        given = new if numbered is None else [message for _, message in numbered]
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

    def _ready(self, prompt: Ids, messages: Sequence[Message], previous: Message | None) -> list[dict[str, Any]]:
        """The new messages, in the order in which the format writes them; declines what upstream would guess or lose."""
        family, name = self._family, self.variant.family
        results = [message for message in messages if message["role"] == "tool"]
        for index, message in enumerate(messages):
            role = message["role"]
            if family.roles and role not in family.roles:
                raise BridgeDeclined(f"new message {index} has the role {role!r}, which {name} doesn't have")
            if family.no_system_in_bridge and role in ("system", "developer"):
                raise BridgeDeclined(f"new message {index} is a {role} message: {family.no_system_in_bridge}")
            if role == "tool" and family.identity == "name" and not message.get("name"):
                raise BridgeDeclined(f"new message {index} (tool): {name} writes the tool's name, which isn't known")
            if role == "tool" and family.identity == "id" and not message.get("tool_call_id"):
                raise BridgeDeclined(f"new message {index} (tool): {name} writes the call's id, which isn't known")
        if family.one_call and len(results) > 1:
            raise BridgeDeclined(f"{name} has one call a turn, and there are {len(results)} results")
        for media in self._media_ids:
            if media in prompt:
                raise BridgeDeclined("the previous prompt has media, whose data a bridge doesn't get")
        new = [dict(message) for message in messages]
        return self._in_call_order(new, previous) if family.ordered and len(results) > 1 else new

    def _in_call_order(self, new: list[dict[str, Any]], previous: Message | None) -> list[dict[str, Any]]:
        calls = [call.get("id") or None for call in (previous or {}).get("tool_calls") or ()]
        places = places_among(calls, [new[index].get("tool_call_id") for index in results_in(new)])
        if places is None or len(places) != len(calls):
            raise BridgeDeclined(f"{self.variant.family} writes results in the order of their calls, which isn't known")
        return in_call_order(new, places)


def _as_list(ids: Sequence[int]) -> Ids:
    """The ids as a list, not copied where there is one behind them: upstream changes neither prompt nor completion."""
    if type(ids) is IdsView and ids.size == len(ids.ids):
        return ids.ids
    return ids if type(ids) is list else list(ids)
