"""A gateway has a name for its renderer, an engine has its renderer: one conversation must have one."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.errors import OptionError
from rllm_renderer_core.resolving.resolver import select_backend

from .renderer import RllmRenderer
from .spellings import is_named, renderer_option


def check_same_renderer(renderer: RllmRenderer, *, family: str | None = "auto", renderer_name: str | None = None) -> None:
    """Refuses names that mean another renderer than the engine's, from whose turns the gateway bridges.

    Args:
        renderer: The engine's.
        family: As in ``resolve``.
        renderer_name: As in ``resolve``.

    Raises:
        OptionError: They name another renderer.
        RendererError: They name none that there is.
    """
    given = {"renderer_family": family, "renderer_name": renderer_name}
    given = {option: name for option, name in given.items() if is_named(name)}
    if not given:
        return
    options: dict[str, Any] = dict(renderer_option(family, renderer_name))
    options["image_processor"] = renderer.resolved.query.image_processor
    named = select_backend(renderer.resolution.model, renderer.tokenizer, **options)
    if (named.backend, named.renderer) != (renderer.backend, renderer.name):
        raise OptionError(
            f"{given} is {named.backend}:{named.renderer}, but the engine renders by {renderer.backend}:{renderer.name}",
            fix="name it for the engine (rollout_engine.renderer_name, rollout_engine.renderer_family), or nowhere",
        )
