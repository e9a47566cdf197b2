"""An error as the reason of a refusal or a decline: one line."""

from __future__ import annotations

from rllm_renderer_core.errors import RendererError


def reason_of(error: BaseException) -> str:
    """The first line of an error, behind the name of its class where it isn't an error of the core's own."""
    first = next(iter(str(error).splitlines()), "")
    return first if isinstance(error, RendererError) else f"{type(error).__name__}: {first}"
