"""Rendered tokens with the mask that rLLM's hosted SFT reads."""

from __future__ import annotations

from rllm_renderer_core.errors import RenderError
from rllm_renderer_core.types import RenderedTokens


class RllmTokens(RenderedTokens):
    """As ``RenderedTokens``."""

    @classmethod
    def of(cls, rendered: RenderedTokens) -> RllmTokens:
        """The same tokens."""
        return cls(**vars(rendered))

    @property
    def is_content(self) -> list[bool]:
        """Which tokens a trainer may train on: those that the model samples, with the stop, and no scaffolding.

        Raises:
            RenderError: The backend can't tell for every token; a trainer without this mask would train on scaffolding.
        """
        mask = self.sampled_mask
        if mask is None or None in mask:
            raise RenderError(
                "this backend can't tell which tokens of this conversation the model samples",
                fix="rllm_renderer_training.sequences.supervised, which proves each turn; or a native renderer",
            )
        return [bool(each) for each in mask]
