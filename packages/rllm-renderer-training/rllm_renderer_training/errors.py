"""Errors of rollouts and of training sequences; all derive from ``RendererError``."""

from __future__ import annotations

from rllm_renderer_core.errors import RendererError


class RolloutError(RendererError):
    """The methods of a ``Rollout`` were called in an order that has no meaning."""


class UnreachableTurnError(RendererError, ValueError):
    """An assistant message that the model can't say behind the prompt that serving renders for what comes before it.

    ``index`` is its position, ``prompt_text`` what the prompt ends with, ``turn_text`` what the format writes for the message.
    """

    index: int = -1
    prompt_text: str = ""
    turn_text: str = ""
