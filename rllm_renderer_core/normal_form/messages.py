"""Messages and tools in one normal form, made once, before any backend sees them.

The normal form of a message is a new dict without ``None`` values, with

- ``role``: a non-empty string; ``content``: a string always, unless the message carries media, then a list of parts;
  text parts of a list are joined with nothing between them; absent, ``None``, ``""`` and ``[]`` are ``""``;
- ``reasoning_content`` where the message has it (also taken from ``reasoning`` and from thinking parts);
- ``tool_calls``: ``{"id", "type": "function", "function": {"name", "arguments"}}`` (``id`` left out where there is none),
  ``arguments`` JSON text: text that was given stays byte for byte, a mapping becomes JSON with keys in their order;
- ``tool_call_id``, ``name`` and any further keys as they came.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import MessageError, RendererError, ToolError, UnsupportedContentError
from .tools import as_mapping, normalized_list

MEDIA_TYPES = frozenset({"image", "image_url", "video", "video_url", "audio", "input_audio", "audio_url", "file"})


def normalize_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """New messages in normal form; the input is never changed.

    Raises:
        MessageError: With the index of the message that can't be used, and why.
    """
    return normalized_list(messages, _message, MessageError)


def has_media(message: Mapping[str, Any]) -> bool:
    """Whether a normalised message carries parts that aren't text."""
    return not isinstance(message["content"], str)


def has_white_edges(message: Mapping[str, Any]) -> bool:
    """Whether a text of a normalised message, or its reasoning, begins or ends with white space."""
    texts = (message["content"], message.get("reasoning_content"))
    return any(isinstance(text, str) and (text[:1].isspace() or text[-1:].isspace()) for text in texts)


def refuse_media(messages: Sequence[Mapping[str, Any]], renderer: str) -> None:
    """Raises ``UnsupportedContentError`` for the first message with media: for renderers of text."""
    for index, message in enumerate(messages):
        if has_media(message):
            kinds = sorted({part["type"] for part in message["content"]} - {"text"})
            raise UnsupportedContentError(
                f"message {index} ({message['role']}) has {', '.join(kinds)} content, and {renderer} renders text alone",
                fix="use a renderer of a vision model, with image_processor=, or remove the part",
                index=index,
            )


_JOIN = "join the halves, or replace them: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
_READ_CLOSELY = frozenset({"reasoning_content", "reasoning", "tool_calls"})


def _message(index: int, message: Any) -> dict[str, Any]:
    if type(message) is dict and _READ_CLOSELY.isdisjoint(message):  # most messages and results
        role, content = message.get("role"), message.get("content")
        if type(role) is str and role and role.isascii() and type(content) is str and content.isascii():
            if len(message) == 2:
                return {"role": role, "content": content}
            rest = {key: value for key, value in message.items() if value is not None}
            return {"role": role, "content": content, **rest}
    source = message if type(message) is dict else as_mapping(message)
    if source is None:
        raise MessageError(f"message {index} must be a mapping, not {type(message).__name__}", index=index)
    role = source.get("role")
    if not isinstance(role, str) or not role:
        raise MessageError(f"message {index} has no role", fix='give it one, such as "user"', index=index)
    _refuse_surrogates(role, index, f"message {index}: its role")
    content, thinking = _content(index, role, source.get("content"))
    out: dict[str, Any] = {"role": role, "content": content}
    reasoning, other = source.get("reasoning_content"), source.get("reasoning")
    if reasoning is None or (reasoning == "" and other):
        reasoning = other
    if reasoning is not None and not isinstance(reasoning, str):
        raise MessageError(f"message {index} ({role}): reasoning_content must be text", index=index)
    _refuse_surrogates(reasoning, index, f"message {index} ({role}): reasoning_content")
    if thinking is not None:
        if reasoning:
            raise MessageError(f"message {index} ({role}) has both reasoning_content and thinking parts", index=index)
        reasoning = thinking
    if reasoning is not None:
        out["reasoning_content"] = reasoning
    calls = source.get("tool_calls")
    if calls:
        if role != "assistant":
            raise MessageError(f"message {index} ({role}) has tool_calls; only an assistant message may", index=index)
        if isinstance(calls, (str, Mapping)) or not isinstance(calls, Iterable):
            raise MessageError(f"message {index} ({role}): tool_calls must be a list", index=index)
        out["tool_calls"] = [_call(index, at, call) for at, call in enumerate(calls)]
    skip = ("role", "content", "reasoning_content", "reasoning", "tool_calls")
    out.update({key: value for key, value in source.items() if key not in skip and value is not None})
    return out


def _content(index: int, role: str, content: Any) -> tuple[str | list[dict[str, Any]], str | None]:
    """``content`` in normal form, and the text of thinking parts, which go to ``reasoning_content``."""
    if content is None:
        return "", None
    if isinstance(content, str):
        _refuse_surrogates(content, index, f"message {index} ({role})")
        return content, None
    if isinstance(content, (bytes, Mapping)) or not isinstance(content, Iterable):
        raise MessageError(
            f"message {index} ({role}): content must be text or a list of parts, not {type(content).__name__}", index=index
        )
    parts: list[dict[str, Any]] = []
    thinking: str | None = None
    for part in content:
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        part = part if type(part) is dict else as_mapping(part)
        kind = part.get("type") if part is not None else None
        if part is not None and kind == "text" and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        elif part is not None and kind == "thinking" and isinstance(part.get("thinking"), str) and role == "assistant":
            thinking = (thinking or "") + part["thinking"]
        elif part is not None and kind in MEDIA_TYPES:
            _refuse_address(part, index, role)
            parts.append(dict(part))
        else:
            raise UnsupportedContentError(
                f"message {index} ({role}) has a content part of type {kind!r} that isn't known",
                fix=f"use text or one of {', '.join(sorted(MEDIA_TYPES))}",
                index=index,
            )
    for text in (*(part.get("text") for part in parts), thinking):
        _refuse_surrogates(text, index, f"message {index} ({role})")
    if any(part["type"] != "text" for part in parts):
        return parts, thinking
    return "".join(part["text"] for part in parts), thinking


def _refuse_address(part: Mapping[str, Any], index: int, role: str) -> None:
    """Raises ``UnsupportedContentError`` for media given by an address: nothing is opened because a message says so."""
    for key in {part["type"], "image", "url", "path"} - {"input_audio"}:
        value = part.get(key)
        given = value.get("url", value.get("path")) if isinstance(value, Mapping) else value
        if isinstance(given, (str, os.PathLike)) and not str(given).startswith("data:"):
            raise UnsupportedContentError(
                f"message {index} ({role}) gives its {part['type']} by an address, {str(given)[:80]!r}, which isn't opened",
                fix="pass the data itself: bytes, a PIL image, or a data: URL",
                index=index,
            )


def unencodable(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> RendererError | None:
    """The error for half a surrogate pair in messages or tools, escaped in arguments too; asked where a backend failed."""
    for what, values, kind in (("message", messages, MessageError), ("tool", tools or (), ToolError)):
        for index, value in enumerate(values):
            calls = [json.loads(call["function"]["arguments"]) for call in value.get("tool_calls") or ()]
            try:
                json.dumps([value, calls], ensure_ascii=False, default=str).encode()
            except UnicodeEncodeError as error:
                said = f"{what} {index} has half a surrogate pair, {error.object[error.start]!r}, which isn't text"
                return kind(said, fix=_JOIN, index=index)
    return None


def _refuse_surrogates(text: Any, index: int, where: str) -> None:
    """Raises ``MessageError`` for half a surrogate pair, which is no text and which no tokenizer encodes."""
    if not isinstance(text, str) or text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MessageError(
            f"{where} has half a surrogate pair, {text[error.start]!r} at position {error.start}, which isn't text",
            fix=_JOIN,
            index=index,
        ) from None


def _read(value: Any, *keys: str) -> list[Any]:
    """What a mapping, an object of a client's library (pydantic), or one of plain attributes has under the keys."""
    source = value if isinstance(value, dict) else as_mapping(value)
    return [getattr(value, key, None) if source is None else source.get(key) for key in keys]


def _call(index: int, at: int, call: Any) -> dict[str, Any]:
    function, call_id = _read(call, "function", "id")
    name, arguments = _read(call if function is None else function, "name", "arguments")
    where = f"message {index}, tool call {at}"
    if not isinstance(name, str) or not name:
        raise MessageError(f"{where} has no function name", index=index)
    if arguments is None or arguments == "":
        text = "{}"
    elif isinstance(arguments, str):
        text = arguments
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MessageError(
                f"{where} ({name}): arguments aren't JSON: {error}", fix="pass valid JSON text or a mapping", index=index
            ) from None
        if not isinstance(value, dict):
            raise MessageError(f"{where} ({name}): arguments must be a JSON object, not {type(value).__name__}", index=index)
    elif isinstance(arguments, Mapping):
        try:
            text = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise MessageError(f"{where} ({name}): arguments can't be written as JSON: {error}", index=index) from None
    else:
        raise MessageError(f"{where} ({name}): arguments must be JSON text or a mapping", index=index)
    _refuse_surrogates(name, index, where)
    _refuse_surrogates(text, index, where)
    own_id = {} if call_id is None else {"id": str(call_id)}
    return {**own_id, "type": "function", "function": {"name": name, "arguments": text}}
