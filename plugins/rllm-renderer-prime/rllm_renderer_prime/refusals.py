"""What isn't rendered or bridged, as the format or upstream would drop, guess or lose it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined, MessageError, ToolError
from rllm_renderer_core.normal_form.pairing import in_call_order, places_among, results_in
from rllm_renderer_core.types import Message

from .corrections import is_query
from .families import Variant, family_of


def refuse_messages(messages: Sequence[Message], variant: Variant) -> None:
    """Raises ``MessageError`` for a message that the format or upstream would drop, or can't attribute to a tool."""
    if not messages:
        raise MessageError("there is no message to render")
    family, name = family_of(variant.family), variant.family
    if family.needs_user and not any(is_query(message) for message in messages):
        raise MessageError(f"there is no message of a user's, and {name} needs one", fix="add a user message")
    for index, message in enumerate(messages):
        role = message["role"]
        if family.roles and role not in family.roles:
            raise MessageError(
                f"message {index} has the role {role!r}, which {name} doesn't have",
                fix=f"use one of {', '.join(sorted(family.roles))}",
                index=index,
            )
        if role == "tool" and family.identity == "name" and not message.get("name"):
            raise MessageError(
                f"message {index} (tool) has no name and no id of a call before it, and {name} writes the tool's name",
                fix="give it the tool_call_id of its call, or a name",
                index=index,
            )


def refuse_tools(tools: Sequence[Any] | None, variant: Variant) -> None:
    """Raises ``ToolError`` for a declaration that upstream writes with other letters than the template."""
    for index, tool in enumerate(tools or () if family_of(variant.family).escapes_tools else ()):
        parameters = tool["function"].get("parameters") or {}
        parts = [value for key, value in parameters.items() if key not in ("properties", "type")]
        for schema in (parameters.get("properties") or {}).values():
            parts += [value for key, value in schema.items() if key not in ("type", "description")]
        if any(json.dumps(part) != json.dumps(part, ensure_ascii=False) for part in parts if not isinstance(part, str)):
            raise ToolError(
                f"tool {index} ({tool['function']['name']}): the package 'renderers' escapes letters beyond ASCII in its "
                f"parameters, which the template of {variant.family} writes as they are",
                fix="write them in ASCII, or choose another backend=",
                index=index,
            )


def bridgeable(messages: Sequence[Message], previous: Message | None, variant: Variant) -> list[dict[str, Any]]:
    """The new messages of a bridge, in the order in which the format writes them.

    Raises:
        BridgeDeclined: For what upstream would guess or lose.
    """
    family, name = family_of(variant.family), variant.family
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
    results = results_in(new)
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
