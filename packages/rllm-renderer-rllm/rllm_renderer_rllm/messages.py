"""rLLM's messages and tools in the core's forms: its ``images``, a client's refusals, its ``Tool`` objects; and
the image chunks of a sampler's prompts, as tinker has them, or as JSON where they went over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.plugin.discovery import warn_once
from rllm_renderer_core.types import RenderedTokens


def plain_messages(messages: Any) -> Any:
    """Messages whose ``images`` are parts of their content, before the text, as rLLM puts them; a refusal is text."""
    if not _is_list(messages):
        return messages  # refused by the core, with the reason
    return [_plain(message) if isinstance(message, Mapping) else message for message in messages]


def _plain(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content, images = message.get("content"), message.get("images")
    if any(part.get("type") == "refusal" for part in _parts(message)):
        content = [
            {"type": "text", "text": part.get("refusal") or ""}
            if isinstance(part, Mapping) and part.get("type") == "refusal"
            else part
            for part in message["content"]
        ]
        message = {**message, "content": content}
    if not images:
        return message
    content = content or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    pictures = [{"type": "image", "image": image} for image in images]
    return {**{key: value for key, value in message.items() if key != "images"}, "content": [*pictures, *parts]}


def has_media(messages: Any) -> bool:
    """Whether a message has images, or parts that aren't text."""
    return _is_list(messages) and any(
        message.get("images") or any(part.get("type") not in ("text", "refusal") for part in _parts(message))
        for message in messages
        if isinstance(message, Mapping)
    )


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a content that is a list, those that are mappings."""
    content = message.get("content")
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def plain_tools(tools: Any) -> Any:
    """Declarations of rLLM's ``Tool`` objects, which have them as ``json``, among dicts.

    Tools that aren't functions (OpenAI's ``web_search``) are run by a server, not by a model that is trained: they are left
    out, as rLLM's engines leave them out, with one warning.
    """
    if not _is_list(tools):
        return tools
    declarations = []
    for tool in tools:
        tool = tool if isinstance(tool, Mapping) else getattr(tool, "json", tool)
        type_ = tool.get("type", "function") if isinstance(tool, Mapping) and "function" not in tool else "function"
        if type_ != "function":
            warn_once(f"a tool of type {type_!r} isn't a function and isn't declared to the model")
            continue
        declarations.append(tool)
    return declarations


def without_images(prompt: Sequence[Any]) -> Sequence[Any]:
    """The ids of a prompt without its image chunks; a prompt that has none is returned as the object that it is."""
    if not isinstance(prompt, Sequence) or set(map(type, prompt)) <= {int}:
        return prompt
    ids = [item for item in _flat(prompt) if not (isinstance(item, Mapping) or hasattr(item, "length"))]
    return prompt if ids == list(prompt) else ids


def with_images(prompt: Sequence[Any], ids: Sequence[Any], bridged: RenderedTokens) -> RenderedTokens:
    """A bridge that continues ``ids``, with the images of ``prompt`` in their places again.

    Args:
        prompt: Ids and image chunks.
        ids: ``without_images(prompt)``.
        bridged: Starts with ``ids``. What follows an image doesn't depend on it, so the same tail continues ``prompt``.
    """
    if ids is prompt:
        return bridged
    return RenderedTokens([*_flat(prompt), *bridged.token_ids[len(ids) :]])


def _flat(prompt: Sequence[Any]) -> list[Any]:
    """Ids and image chunks: a text chunk is replaced by its ids."""
    return [one for item in prompt for one in ([item] if getattr(item, "tokens", None) is None else item.tokens)]
