"""Messages and tools in the core's normal form, in the form that upstream takes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import ToolError, UnsupportedContentError, UnsupportedToolsError

from .rewrites import INDEX


def to_upstream(message: dict[str, Any], name: str) -> dict[str, Any]:
    """Upstream's message: reasoning as a thinking part, calls as its ``ToolCall``, media as its image parts.

    Args:
        message: In normal form, with ``INDEX``.
        name: The renderer's name, for errors.

    Raises:
        UnsupportedContentError: For media that upstream can't carry.
    """
    out = {key: value for key, value in message.items() if key not in ("reasoning_content", "tool_calls")}
    content = message["content"]
    if not isinstance(content, str):
        index = message.get(INDEX)
        content = [p if p["type"] == "text" else _image_part(p, name, index, message["role"]) for p in content]
    reasoning = message.get("reasoning_content")
    if reasoning:
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [{"type": "thinking", "thinking": reasoning}, *parts]
    out["content"] = content
    if message.get("tool_calls"):
        out["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return out


def _image_part(part: dict[str, Any], name: str, index: int | None, role: str) -> dict[str, Any]:
    """OpenAI's ``image_url`` or an ``image`` part, as upstream's image part.

    Upstream opens any URL that it is given, files on this machine included. A renderer doesn't fetch: a message of a user
    would make the server read what they name, under the tokenizer's lock. So pictures come as objects or ``data:`` URIs.

    Raises:
        UnsupportedContentError: For other media, and for addresses that would have to be fetched.
    """
    kind = part["type"]
    image = part.get("image") if kind == "image" else part.get("image_url") if kind == "image_url" else None
    if isinstance(image, dict):
        image = image.get("url")
    where = f"message {index} ({role})"
    if image is None:
        raise UnsupportedContentError(
            f"{where}: renderer {name!r} can't carry {kind} content", fix="remove the part", index=index
        )
    if isinstance(image, str) and not image.startswith("data:"):
        raise UnsupportedContentError(
            f"{where}: an image must be a PIL image or a data: URI; nothing is fetched while rendering",
            fix="load it first",
            index=index,
        )
    return {"type": "image", "image": image}


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
    one is shows when it is handed one bare function: printed as it is means that it wants the wrapper. ``unescapes`` is true
    where upstream escapes letters beyond ASCII in a syntax that isn't JSON.
    """

    def __init__(self, upstream: Any, name: str, *, unescapes: bool) -> None:
        self._upstream = upstream
        self._name = name
        self._unescapes = unescapes
        self._wrapped: bool | None = None

    def prefix(self, tools: Sequence[dict[str, Any]], system: str) -> list[dict[str, Any]]:
        """The messages that declare the tools, the system text folded in.

        Raises:
            UnsupportedToolsError: Upstream has no tool declarations for this format.
        """
        if self._wrapped is None:
            self._wrapped = self._prints_as_handed()
        handed = [dict(tool) if self._wrapped else dict(tool["function"]) for tool in tools]
        declared = [_with_plain_unicode(message, tools) for message in self._declare(handed, system)]
        if self._unescapes:
            declared = [{**message, "content": _unescaped(message["content"], system, tools)} for message in declared]
        return declared

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


def _unescaped(declared: str, system: str, tools: Sequence[Any]) -> str:
    """Declarations whose letters upstream wrote as ``\\u00e9``, as the letters that the template writes.

    The user's text beside them stays as it is, and so does everything where a tool spells such an escape itself.
    """
    if "\\u" in json.dumps(tools, ensure_ascii=False):
        return declared
    before, given, behind = declared.partition(system) if system else (declared, "", "")
    return _letters(before) + given + _letters(behind)


def _letters(text: str) -> str:
    pairs = re.compile(r"(?:\\u[0-9a-f]{4})+")
    return pairs.sub(lambda found: str(json.loads(f'"{found.group()}"')), text)
