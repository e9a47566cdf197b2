"""A gateway's names for a renderer beside the renderer of an engine: one conversation has one."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.errors import OptionError
from rllm_renderer_core.resolving.resolver import select_backend

from .renderer import RllmRenderer
from .spellings import spelled


def check_named(renderer: RllmRenderer, *, family: str | None = "auto", renderer_name: str | None = None) -> None:
    """Nothing where these name no other renderer than ``renderer``, which renders the turns that a gateway bridges from.

    Args:
        renderer: The engine's.
        family: As ``resolve`` has it.
        renderer_name: As ``resolve`` has it.

    Raises:
        OptionError: They name another one.
        RendererError: They name none.
    """
    given = {"renderer_family": family, "renderer_name": renderer_name}
    given = {key: value for key, value in given.items() if value not in (None, "", "auto")}
    if not given:
        return
    options: dict[str, Any] = {"image_processor": renderer.resolved.query.image_processor, **spelled(family, renderer_name)}
    named = select_backend(renderer.resolution.model, renderer.tokenizer, **options)
    if (named.backend, named.renderer) != (renderer.backend, renderer.name):
        raise OptionError(
            f"{given} is {named.backend}:{named.renderer}, but the engine renders by {renderer.backend}:{renderer.name}",
            fix="name it for the engine (rollout_engine.renderer_name, rollout_engine.renderer_family), or nowhere",
        )
