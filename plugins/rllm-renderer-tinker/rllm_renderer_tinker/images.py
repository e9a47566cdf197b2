"""Image parts: into upstream's form, and back as placeholder ids beside upstream's own object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rllm_renderer_core.errors import UnsupportedContentError

PLACEHOLDERS = ("<|image_pad|>", "<|media_pad|>", "<image>")
"""Texts of the one token that a model's processor repeats for an image: Qwen, Kimi, Nemotron."""


def image_part(part: dict[str, Any], name: str, index: int | None, role: str) -> dict[str, Any]:
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


def placeholder_id(tokenizer: Any) -> int | None:
    """Id of the token that stands for a piece of an image in this vocabulary, or ``None``."""
    from rllm_renderer_core.normal_form.tokenizer import added_tokens

    added = added_tokens(tokenizer)
    return next((added[text] for text in PLACEHOLDERS if text in added), None)


def flat_ids(chunks: Iterable[Any], placeholder: int | None, name: str) -> tuple[list[int], bool]:
    """Ids of upstream's chunks, each image as its number of placeholders, and whether there was an image.

    Raises:
        UnsupportedContentError: The vocabulary has no placeholder that is known.
    """
    ids: list[int] = []
    images = False
    for chunk in chunks:
        if hasattr(chunk, "tokens"):
            ids.extend(chunk.tokens)
            continue
        images = True
        if placeholder is None:
            raise UnsupportedContentError(f"renderer {name!r}: the vocabulary has no image placeholder that is known")
        ids.extend([placeholder] * int(chunk.length))
    return ids, images
