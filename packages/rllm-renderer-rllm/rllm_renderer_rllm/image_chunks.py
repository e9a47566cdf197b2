"""Prompts of a sampler that takes images: chunks among the ids, as tinker has them, or as JSON where they went over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.types import RenderedTokens


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
