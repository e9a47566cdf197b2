"""Messages and tools in the core's normal form, in the form that upstream takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import ToolError, UnsupportedToolsError

from .images import image_part
from .rewrites import INDEX


def to_upstream(messages: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Upstream's messages: reasoning as a thinking part, calls as its ``ToolCall``, media as its image parts.

    Args:
        messages: In normal form, each with ``INDEX``.
        name: The renderer's name, for errors.

    Raises:
        UnsupportedContentError: For media that upstream can't carry.
    """
    return [_message(message, name) for message in messages]


def _message(message: dict[str, Any], name: str) -> dict[str, Any]:
    out = {key: value for key, value in message.items() if key not in ("reasoning_content", "tool_calls")}
    content = message["content"]
    if not isinstance(content, str):
        index = message.get(INDEX)
        content = [p if p["type"] == "text" else image_part(p, name, index, message["role"]) for p in content]
    reasoning = message.get("reasoning_content")
    if reasoning:
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [{"type": "thinking", "thinking": reasoning}, *parts]
    out["content"] = content
    if message.get("tool_calls"):
        out["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return out


def _call(call: dict[str, Any]) -> Any:
    from tinker_cookbook.renderers.base import ToolCall

    function = call["function"]
    body = ToolCall.FunctionBody(name=function["name"], arguments=function["arguments"])
    return ToolCall(function=body, id=call.get("id"))


PROBE: dict[str, Any] = {"name": "probe", "description": "d", "parameters": {"type": "object", "properties": {}}}


class ToolDeclarations:
    """How this upstream renderer wants tools: as OpenAI's wrapper, or the bare function.

    Formats that print a declaration as JSON print the wrapper in serving. Some upstream renderers wrap what they are handed,
    some print it as it is, and those that write a syntax of their own read the bare function's keys. Which of them this
    one is shows when it is handed one bare function: printed as it is means that it wants the wrapper.
    """

    def __init__(self, upstream: Any, name: str) -> None:
        self._upstream = upstream
        self._name = name
        self._wrapped: bool | None = None

    def prefix(self, tools: Sequence[dict[str, Any]], system: str) -> list[dict[str, Any]]:
        """The messages that declare the tools, the system text folded in.

        Raises:
            UnsupportedToolsError: Upstream has no tool declarations for this format.
        """
        if self._wrapped is None:
            self._wrapped = self._prints_as_handed()
        handed = [dict(tool) if self._wrapped else dict(tool["function"]) for tool in tools]
        return [_with_plain_unicode(message, tools) for message in self._declare(handed, system)]

    def _prints_as_handed(self) -> bool:
        printed = "".join(str(message["content"]) for message in self._declare([dict(PROBE)], ""))
        lines = [line.strip() for line in printed.splitlines()]
        return json.dumps(PROBE) in lines

    def _declare(self, handed: list[dict[str, Any]], system: str) -> list[dict[str, Any]]:
        try:
            return [dict(message) for message in self._upstream.create_conversation_prefix_with_tools(handed, system)]
        except KeyError as error:
            index = next((at for at, tool in enumerate(handed) if error.args[0] not in tool), None)
            raise ToolError(
                f"tool {index}: renderer {self._name!r} can't declare a function without {error.args[0]!r}",
                fix=f"add {error.args[0]!r} to it",
                index=index,
            ) from error
        except NotImplementedError as error:
            raise UnsupportedToolsError(
                f"renderer {self._name!r} has no tool declarations upstream{f': {error}' if str(error) else ''}",
                fix="leave tools out, or choose another renderer= or backend=",
            ) from error


def _with_plain_unicode(message: dict[str, Any], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Templates print JSON with the text as it is; upstream escapes what isn't ASCII."""
    content = message["content"]
    for tool in tools:
        for value in (tool, tool["function"], tool["function"].get("parameters")):
            for separators in ((", ", ": "), (",", ":")):
                escaped = json.dumps(value, separators=separators)
                if escaped in content:
                    content = content.replace(escaped, json.dumps(value, separators=separators, ensure_ascii=False))
    return {**message, "content": content}
