"""The close of the turn that was sampled: what may follow, what the bridge must find there, and what upstream writes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.pairing import in_call_order, places_among
from rllm_renderer_core.types import Message

from .families import Variant, family_of

Ids = list[int]
Encode = Callable[[str], Ids]
ROLE_TAGS = {"user": "<|user|>", "tool": "<|observation|>", "system": "<|system|>"}
"""GLM's: the tag of the next message closes the turn."""


class TurnEnd:
    """Checks what follows a turn, and how C ends, before upstream's bridge; and what upstream made of it afterwards."""

    def __init__(self, variant: Variant, stops: frozenset[int], encode: Encode) -> None:
        self._family, self._name = family_of(variant.family), variant.family
        self._stops = stops
        self._tags: dict[int, str] = {}
        self._endoftext: int | None = None
        self._harmony: dict[str, int] = {}
        if self._family.tag_stops:
            self._tags = {encode(tag)[0]: role for role, tag in ROLE_TAGS.items()}
            self._endoftext = encode("<|endoftext|>")[0]
        if variant.family == "gpt-oss":
            self._harmony = {text: encode(f"<|{text}|>")[0] for text in ("start", "channel", "message", "end", "constrain")}
            self._analysis = encode("<|channel|>analysis")
            self._recipient = encode(" to")

    def ordered(self, messages: Sequence[Message], previous: Message | None) -> list[dict[str, Any]]:
        """The new messages of a bridge, in the order in which the format writes them.

        Raises:
            BridgeDeclined: For what upstream would guess or lose.
        """
        family, name = self._family, self._name
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
        new = [dict(message) for message in messages]
        results = [index for index, message in enumerate(new) if message["role"] == "tool"]
        if len(results) < 2:
            return new
        if family.one_call:
            raise BridgeDeclined(f"{name} has one call a turn, and there are {len(results)} results")
        if not family.ordered:
            return new
        calls = [call.get("id") or None for call in (previous or {}).get("tool_calls") or ()]
        places = places_among(calls, [new[index].get("tool_call_id") for index in results])
        if places is None or len(places) != len(calls):
            raise BridgeDeclined(f"{name} writes results in the order of their calls, which isn't known")
        return in_call_order(new, places)

    def closed(self, prompt: Ids, sampled: Ids, new: Sequence[dict[str, Any]]) -> Ids:
        """C through its stop, or all of it where it was cut off.

        Raises:
            BridgeDeclined: For a stop that contradicts the new messages, or a cut in a place that no close can follow.
        """
        at = len(sampled) if self._stops.isdisjoint(sampled) else next(i for i, t in enumerate(sampled) if t in self._stops)
        if at == len(sampled):
            self._refuse_cut(prompt, sampled)
        elif self._harmony:
            self._refuse_stop_in_analysis(sampled[:at])
        stop = sampled[at] if at < len(sampled) else next(iter(sampled[-1:]), -1)
        if stop in self._tags and self._tags[stop] != new[0]["role"]:
            tag, first = self._tags[stop], new[0]["role"]
            raise BridgeDeclined(f"the completion ended with the tag of a {tag} message, and a {first} message follows")
        return sampled if at >= len(sampled) - 1 else sampled[: at + 1]

    def _refuse_cut(self, prompt: Ids, sampled: Ids) -> None:
        if not self._harmony:
            return
        names = {index: name for name, index in self._harmony.items()}
        for ids in (sampled, prompt[-16:]):
            last = next((names[token] for token in reversed(ids) if token in names), None)
            if last is not None:
                break
        if last != "message":
            raise BridgeDeclined("the completion was cut off between two messages of the turn, where nothing can close it")

    def _refuse_stop_in_analysis(self, sampled: Ids) -> None:
        """Upstream knows the channel only where the prompt opened it; a call that is made in analysis names its recipient."""
        start = next((i for i in range(len(sampled) - 1, -1, -1) if sampled[i] == self._harmony["start"]), 0)
        message = self._harmony["message"]
        header = sampled[start : sampled.index(message, start) if message in sampled[start:] else len(sampled)]
        opened = any(header[i : i + len(self._analysis)] == self._analysis for i in range(len(header)))
        if opened and self._recipient[0] not in header:
            raise BridgeDeclined("the completion stopped inside reasoning")

    def repaired(self, out: Any, prompt: Ids, sampled: Ids, closed: Ids) -> tuple[Ids, list[Any], list[Any]]:
        """Upstream's ids with their attribution, without a close that the template doesn't have.

        Raises:
            BridgeDeclined: For ids behind the stop that aren't how the next turn begins.
        """
        ids: Ids = out.token_ids
        indices, mask = out.message_indices, out.sampled_mask
        size = len(prompt) + len(closed)
        if self._endoftext is not None and self._stops.isdisjoint(closed[-1:]):
            # A turn that was cut off is closed by the next role tag; upstream writes <|endoftext|> before it. A tag that isn't
            # among upstream's stops may have been sampled all the same; then it is there already.
            extra = [self._endoftext, *(tag for tag in closed[-1:] if tag in self._tags)]
            if ids[size : size + len(extra)] == extra:
                for each in (ids, indices, mask):
                    del each[size : size + len(extra)]
        if len(closed) < len(sampled):
            behind = sampled[len(closed) :]
            if ids[size : size + len(behind)] != behind or len(ids) <= size + len(behind):
                raise BridgeDeclined("the completion goes on behind its stop, and not as the next turn begins")
        return ids, indices, mask


class GemmaResponses:
    """Gemma 4's results, which continue the model's own turn: upstream bridges them, or other messages, but not both in one."""

    def __init__(self, upstream: Any, encode: Encode) -> None:
        self._upstream = upstream
        self._thought = encode("<|channel>thought\n")

    def bridge(self, prompt: Ids, sampled: Ids, new: Sequence[dict[str, Any]], tools: Any) -> Any:
        """Upstream's result; results first, then the turn's close and the other messages, as the template has them."""
        count = next((i for i, message in enumerate(new) if message["role"] != "tool"), len(new))
        if count in (0, len(new)):
            return self._upstream.bridge_to_next_turn(prompt, sampled, new, tools=tools)
        if any(message["role"] == "tool" for message in new[count:]):
            return None
        first = self._upstream.bridge_to_next_turn(prompt, sampled, new[:count], tools=tools)
        if first is None:
            return None
        ids = first.token_ids
        if ids[-len(self._thought) :] == self._thought:  # the opener of a turn that doesn't go on
            ids = ids[: -len(self._thought)]
        second = self._upstream.bridge_to_next_turn(ids, [], new[count:], tools=tools)
        if second is None:
            return None
        rest = second.message_indices[len(ids) :]
        second.message_indices = first.message_indices[: len(ids)] + [i if i < 0 else i + count for i in rest]
        return second
