"""The guard around every backend's bridge: what is declined before a backend is asked, and what it is asked with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..errors import BridgeDeclined
from ..plugin import Query
from ..types import Message, Renderer, ToolCallStatus
from ..vocabulary import reasoning_ids
from .ids import IdsView
from .marker_text import MarkerText
from .messages import has_media, normalize_messages, normalize_tools
from .pairing import calls_of, fill_results, results_in, sampled_calls
from .parsing import GENERATED_ID, ParseGuard
from .returned import BridgedTokens, checked_bridge

QUERY_ROLES = frozenset({"user", "developer", "system"})
"""Roles that open a new query: where ``thinking_retention="tool_cycle"`` renders again."""


class BridgeGuard:
    """``bridge_to_next_turn`` of one backend's renderer, under the core's contract.

    Args:
        upstream: The backend's renderer.
        query: What it was made by.
        backend: The backend's name, and ``name`` the backend's name of the renderer.
        lock: Held while ``upstream`` works.
        parsing: Parses completions where only that tells whether they are whole.
        stops: Ids at which sampling stops.
        text: What becomes of control tokens that message text spells.
    """

    def __init__(
        self,
        upstream: Renderer,
        query: Query,
        backend: str,
        name: str,
        lock: Any,
        parsing: ParseGuard,
        stops: frozenset[int],
        text: MarkerText,
    ) -> None:
        self._upstream, self._backend, self._name, self._lock = upstream, backend, name, lock
        self._parsing, self._stops, self._text = parsing, stops, text
        self._media = bool(getattr(upstream, "supports_media", False))
        self._takes_views = bool(getattr(upstream, "takes_views", False))
        self._names_results = bool(getattr(upstream, "wants_result_names", True))
        self._tokenizer = query.tokenizer
        self._drops_old_reasoning = query.thinking_retention == "tool_cycle"

    def bridge(
        self,
        prompt: IdsView,
        sampled: list[int],
        new_messages: Sequence[Message],
        tools: Sequence[Any] | None,
        previous_message: Message | None,
    ) -> BridgedTokens:
        """The checked bridge, from ids that were checked when they came in.

        Raises:
            BridgeDeclined: With the reason.
            RendererError: Bad messages or tools, or a broken contract.
        """
        new = normalize_messages(new_messages)
        declared = normalize_tools(tools)
        previous = None if previous_message is None else normalize_messages([previous_message])[0]
        self._refuse_early(prompt, sampled, new)
        self._refuse_unfinished(prompt, sampled, declared)
        if results_in(new):
            if previous is None:
                previous = self._answered(prompt, sampled, new, declared)
            new = self._paired(sampled, new, declared, previous)
        new, declared = self._text.messages(new), self._text.tools(declared)
        previous = None if previous is None else self._text.messages([previous])[0]
        given = prompt if self._takes_views else prompt.to_list()
        with self._lock:
            out = self._upstream.bridge_to_next_turn(given, list(sampled), new, tools=declared, previous_message=previous)
        if out is None:
            raise BridgeDeclined(f"{self._backend}:{self._name} can't prove this bridge")
        return checked_bridge(out, prompt, given, sampled, self._backend, messages=len(new))

    def _refuse_early(self, prompt: IdsView, sampled: list[int], new: list[dict[str, Any]]) -> None:
        """Declines that need nothing of the format."""
        if not prompt:
            raise BridgeDeclined("the previous prompt is empty")
        if not sampled:
            # What was bridged before this ends with an opener: closing that turn would leave an empty one in the history.
            raise BridgeDeclined("nothing was sampled since the previous prompt")
        if not new:
            raise BridgeDeclined("there is no new message")
        for index, message in enumerate(new):
            if message["role"] == "assistant":
                raise BridgeDeclined(f"new message {index} is an assistant message: its tokens weren't sampled here")
            if self._drops_old_reasoning and message["role"] in QUERY_ROLES:
                raise BridgeDeclined(
                    f"new message {index} ({message['role']}) opens a new query, where thinking_retention='tool_cycle' "
                    "drops old reasoning",
                    fix="thinking_retention='all' keeps it",
                )
            if has_media(message) and not self._media:
                raise BridgeDeclined(f"new message {index} carries media, and {self._backend}:{self._name} bridges text alone")
        if sum(map(self._stops.__contains__, sampled)) > 1:
            raise BridgeDeclined("the completion has more than one stop")
        if not self._parsing.more_stops.isdisjoint(sampled):
            raise BridgeDeclined("the completion ends with the tokenizer's end of sequence, which closes no turn of the format")

    def _refuse_unfinished(self, prompt: IdsView, sampled: list[int], tools: list[dict[str, Any]] | None) -> None:
        """Declines a completion that ends inside reasoning or inside a tool call."""
        stopped = not self._stops.isdisjoint(sampled)
        inside = self._reasoning is None or self._may_be_inside(self._reasoning, prompt, sampled)
        if self._reasoning == () and self._may_be_inside(self._unshown_reasoning, prompt, sampled):
            # The format shows no reasoning, so no parse tells; the model may write its markers all the same.
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if stopped and not inside:
            return
        parsed = self._parsing.parse_native(sampled, tools, prompt.to_list())
        if not parsed.reasoning_complete:
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if not stopped and any(call.status is ToolCallStatus.UNCLOSED_BLOCK for call in parsed.tool_calls):
            raise BridgeDeclined("the completion was cut off inside a tool call")

    @cached_property
    def _reasoning(self) -> tuple[int, int] | tuple[()] | None:
        """The backend's ``reasoning_ids``, asked when needed: a backend may have to learn them."""
        with self._lock:
            found: tuple[int, int] | tuple[()] | None = getattr(self._upstream, "reasoning_ids", None)
        return found

    @cached_property
    def _unshown_reasoning(self) -> tuple[int, int] | tuple[()]:
        """The vocabulary's markers of reasoning, which it has for formats that show none too."""
        return reasoning_ids(self._tokenizer)

    @staticmethod
    def _may_be_inside(markers: tuple[int, int] | tuple[()], prompt: IdsView, sampled: list[int]) -> bool:
        """Whether the last reasoning marker opens: cheap, and right but for markers in the text of a message."""
        if not markers:
            return False
        opening, closing = markers
        for ids in (sampled, prompt[-16:]):
            backwards = ids[::-1]
            if opening in backwards or closing in backwards:
                return opening in backwards[: backwards.index(closing) if closing in backwards else None]
        return False

    def _answered(
        self, prompt: IdsView, sampled: list[int], new: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> dict[str, Any] | None:
        """The sampled message, where the results carry the very ids that ``parse_response`` gave its calls: then it is certain
        which answers which, though the format has no ids."""
        given = [new[index].get("tool_call_id") for index in results_in(new)]
        if not all(isinstance(each, str) and each.startswith(GENERATED_ID) for each in given):
            return None
        parsed = self._parsing.parse(sampled, tools, prompt.to_list())
        if not parsed.tool_calls or not all(call.sound for call in parsed.tool_calls):
            return None
        if not set(given) <= {call.id for call in parsed.tool_calls}:
            return None
        return normalize_messages([parsed.to_message()])[0]

    def _paired(
        self,
        sampled: list[int],
        new: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        previous: dict[str, Any] | None,
    ) -> list[dict[str, Any]]:
        """New messages whose results have the names of their calls, as far as that is certain."""
        results = [new[index] for index in results_in(new)]
        if previous is not None:
            calls = calls_of(previous)
            known = {call_id for _, call_id in calls if call_id is not None}
            for result in results:
                if known and result.get("tool_call_id") is not None and result["tool_call_id"] not in known:
                    raise BridgeDeclined(f"no call of the previous message has the id {result['tool_call_id']!r}")
            return fill_results(calls, new) if self._names_results else new
        if not self._names_results or all(result.get("name") and result.get("tool_call_id") for result in results):
            return new
        parsed = self._parsing.parse_native(sampled, tools)
        return fill_results(sampled_calls(parsed), new)
