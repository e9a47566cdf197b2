"""Prompts of a sampler that takes images: chunks among the ids, as tinker has them, or as JSON where they went over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.types import RenderedTokens


def without_chunks(prompt: Sequence[Any]) -> Sequence[Any]:
    """The ids of a prompt, without its images; what has none stays the object it is."""
    if not isinstance(prompt, Sequence) or set(map(type, prompt)) <= {int}:
        return prompt
    ids = [each for each in _flat(prompt) if not _is_chunk(each)]
    return prompt if ids == list(prompt) else ids


def behind(prompt: Sequence[Any], ids: Sequence[Any], bridged: RenderedTokens) -> RenderedTokens:
    """A bridge of ``ids``, which are ``without_chunks(prompt)``, with the images in their places.

    The ids behind an image don't depend on it, so that the one continues the other.
    """
    if ids is prompt:
        return bridged
    return RenderedTokens([*_flat(prompt), *bridged.token_ids[len(ids) :]])


def _flat(prompt: Sequence[Any]) -> list[Any]:
    """With the ids of chunks of text in the chunks' places."""
    out: list[Any] = []
    for each in prompt:
        tokens = getattr(each, "tokens", None)
        out.extend([each] if tokens is None else tokens)
    return out


def _is_chunk(each: Any) -> bool:
    return isinstance(each, Mapping) or hasattr(each, "length")
