"""Who wrote which chunk: upstream's own build, with the parts of each message recorded on the way, and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.errors import UnsupportedContentError
from rllm_renderer_core.normal_form.tokenizer import added_tokens

from .rewrites import INDEX, MERGED

PLACEHOLDERS = ("<|image_pad|>", "<|media_pad|>", "<image>")
"""Texts of the one token that a model's processor repeats for an image: Qwen, Kimi, Nemotron."""


@dataclass
class Part:
    """One chunk of a prompt.

    Attributes:
        chunk: Upstream's text or image chunk.
        message: The upstream message that it was rendered from, ``None`` for scaffolding: the start of the text, the opener.
        is_header: Whether it is the message's header.
    """

    chunk: Any
    message: dict[str, Any] | None = None
    is_header: bool = False

    @property
    def index(self) -> int | None:
        """Position of the message, -1 for scaffolding, ``None`` where several messages share the chunk."""
        if self.message is None:
            return -1
        return None if MERGED in self.message else int(self.message.get(INDEX, -1))


def twin_of(upstream: Any, attributes: Mapping[str, Any]) -> Any:
    """A second renderer that shares everything with the first, but has these attributes. The first isn't touched.

    ``copy.copy`` won't do: upstream's renderers copy, like they pickle, by building a new one from a name.
    """
    twin = object.__new__(type(upstream))
    vars(twin).update({**vars(upstream), **attributes})
    return twin


def recorded(upstream: Any, messages: Sequence[dict[str, Any]]) -> list[Part]:
    """The parts of the generation prompt of these messages.

    Upstream's ``build_generation_prompt`` runs on a twin of the renderer that notes what each ``render_message`` returned; the
    chunks of the prompt are the same objects. The renderer itself isn't touched.
    """
    parts: dict[int, Part] = {}
    # What a renderer notes about the conversation while it builds (DeepSeek-V4's notes whether tools are declared) has to be on
    # the object whose messages are rendered.
    twin = twin_of(upstream, {})
    plain = twin.render_message

    def render_message(message: dict[str, Any], ctx: Any, **more: Any) -> Any:
        rendered = plain(message, ctx, **more)
        # What upstream renders besides the conversation, for its opener, isn't one of our messages.
        if INDEX in message:
            if rendered.header is not None:
                parts[id(rendered.header)] = Part(rendered.header, message, is_header=True)
            parts.update({id(chunk): Part(chunk, message) for chunk in rendered.output})
        return rendered

    twin.render_message = render_message
    prompt = twin.build_generation_prompt(list(messages))
    return [parts.get(id(chunk), Part(chunk)) for chunk in prompt.chunks]


def split_opener(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """The parts up to the last one that a message was rendered to, and those of the opener behind it."""
    last = max((at for at, part in enumerate(parts) if part.message is not None), default=-1)
    return list(parts[: last + 1]), list(parts[last + 1 :])


def placeholder_id(tokenizer: Any) -> int | None:
    """Id of the token that stands for a piece of an image in this vocabulary, or ``None``."""
    added = added_tokens(tokenizer)
    return next((added[text] for text in PLACEHOLDERS if text in added), None)


def flat_ids(chunks: Iterable[Any], placeholder: int | None, name: str) -> list[int]:
    """Ids of upstream's chunks, each image as its number of placeholders.

    Raises:
        UnsupportedContentError: The vocabulary has no placeholder that is known.
    """
    ids: list[int] = []
    for chunk in chunks:
        if hasattr(chunk, "tokens"):
            ids.extend(chunk.tokens)
        elif placeholder is not None:
            ids.extend([placeholder] * int(chunk.length))
        else:
            raise UnsupportedContentError(f"renderer {name!r}: the vocabulary has no image placeholder that is known")
    return ids
