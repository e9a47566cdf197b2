"""The guard around every backend's bridge: what is declined before a backend is asked, and what it is asked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import BridgeDeclined
from ..guards.marker_text.marker_text import MarkerText
from ..guards.nothing_dropped.dropped import DropCheck
from ..guards.span_encoding.joined import Joined
from ..guards.turn_end.unfinished import Unfinished
from ..normal_form.ids import IdsView
from ..normal_form.messages import has_media, normalize_messages, normalize_tools
from ..normal_form.pairing import answered_turn, calls_of, fill_results, results_in, sampled_calls
from ..normal_form.returned import BridgedTokens, checked_bridge
from ..plugin import Query
from ..types import Message, Renderer
from .parsing import GENERATED_ID, ParseGuard

QUERY_ROLES = frozenset({"user", "developer", "system"})
"""Roles that open a new query: where ``thinking_retention="tool_cycle"`` renders again."""


@dataclass(frozen=True)
class Guarded:
    """One backend's renderer, and what its guards share.

    Attributes:
        upstream: The backend's renderer.
        query: What it was made by.
        name: ``backend:renderer``.
        lock: Held while ``upstream`` works.
        text: What becomes of control tokens that message text spells.
        joined: What the renderer tokenizes apart, joined.
        dropping: Whether what goes in shows.
    """

    upstream: Renderer
    query: Query
    name: str
    lock: Any
    text: MarkerText
    joined: Joined
    dropping: DropCheck

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.name.partition(":")[0]


class BridgeGuard:
    """``bridge_to_next_turn`` of one backend's renderer, under the core's contract.

    Args:
        guarded: The renderer.
        parsing: Parses completions where only that tells whether they are whole.
        stops: Ids at which sampling stops.
    """

    def __init__(self, guarded: Guarded, parsing: ParseGuard, stops: frozenset[int]) -> None:
        upstream, query = guarded.upstream, guarded.query
        self._upstream, self._name, self._lock, self._backend = upstream, guarded.name, guarded.lock, guarded.backend
        self._parsing, self._stops = parsing, stops
        self._text, self._joined, self._dropping = guarded.text, guarded.joined, guarded.dropping
        self._media = bool(getattr(upstream, "supports_media", False))
        self._takes_views = bool(getattr(upstream, "takes_views", False))
        self._names_results = bool(getattr(upstream, "wants_result_names", True))
        self._unfinished = Unfinished(upstream, query.tokenizer, guarded.lock, stops)
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
        previous = None if previous_message is None else answered_turn(previous_message)
        self._refuse_early(prompt, sampled, new)
        self._unfinished.refuse(prompt, sampled, lambda ids: self._parsing.parse_native(ids, declared, prompt.to_list()))
        if results_in(new):
            if previous is None:
                previous = self._answered(prompt, sampled, new, declared)
            if previous is not None and not _ids_are_known(previous, new):
                previous = None  # the client wrote its own ids: which result answers which call is not to be had from it
            new = self._paired(sampled, new, declared, previous)
        new, declared = self._text.messages(new), self._text.tools(declared)
        previous = None if previous is None else self._text.messages([previous])[0]
        given = prompt if self._takes_views else prompt.to_list()

        def bridged(messages: list[dict[str, Any]]) -> BridgedTokens:
            with self._lock:
                out = self._upstream.bridge_to_next_turn(
                    given, list(sampled), messages, tools=declared, previous_message=previous
                )
            if out is None:
                raise BridgeDeclined(f"{self._name} can't prove this bridge")
            return checked_bridge(out, prompt, given, sampled, self._backend, messages=len(messages))

        out = self._joined.bridged(bridged(new), new)
        self._dropping.refuse_bridge(new, declared is not None, lambda messages: bridged(messages).delta)
        return out

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
                raise BridgeDeclined(f"new message {index} carries media, and {self._name} bridges text alone")
        if sum(map(self._stops.__contains__, sampled)) > 1:
            raise BridgeDeclined("the completion has more than one stop")
        if not self._parsing.more_stops.isdisjoint(sampled):
            raise BridgeDeclined("the completion ends with the tokenizer's end of sequence, which closes no turn of the format")

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
            return fill_results(calls_of(previous), new) if self._names_results else new
        if not self._names_results or all(result.get("name") and result.get("tool_call_id") for result in results):
            return new
        parsed = self._parsing.parse_native(sampled, tools)
        return fill_results(sampled_calls(parsed), new)


def _ids_are_known(previous: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every id that a result has is that of a call, where the calls have ids."""
    known = {call_id for _, call_id in calls_of(previous) if call_id is not None}
    given = {new[index].get("tool_call_id") for index in results_in(new)} - {None}
    return not known or given <= known
