"""What isn't rendered, as the format or upstream would drop it or write it otherwise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import MessageError, ToolError
from rllm_renderer_core.types import Message

from .corrections import is_query
from .families import Family


def refuse_messages(messages: Sequence[Message], family: Family, name: str) -> None:
    """Raises ``MessageError`` for a message that the format or upstream would drop, or can't attribute to a tool."""
    if not messages:
        raise MessageError("there is no message to render")
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


def refuse_tools(tools: Sequence[Any] | None, family: Family, name: str) -> None:
    """Raises ``ToolError`` for a declaration that upstream writes with other letters than the template."""
    for index, tool in enumerate(tools or () if family.escapes_tools else ()):
        parameters = tool["function"].get("parameters") or {}
        parts = [value for key, value in parameters.items() if key not in ("properties", "type")]
        for schema in (parameters.get("properties") or {}).values():
            parts += [value for key, value in schema.items() if key not in ("type", "description")]
        if any(json.dumps(part) != json.dumps(part, ensure_ascii=False) for part in parts if not isinstance(part, str)):
            raise ToolError(
                f"tool {index} ({tool['function']['name']}): the package 'renderers' escapes letters beyond ASCII in its "
                f"parameters, which the template of {name} writes as they are",
                fix="write them in ASCII, or choose another backend=",
                index=index,
            )
