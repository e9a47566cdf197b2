"""The Fireworks cookbook's renderers for rllm-renderer-core: the hook. Light: the cookbook is imported by ``create`` alone."""

from __future__ import annotations

from collections.abc import Iterable

from rllm_renderer_core.plugin import Backend, hookimpl

from .backend import FireworksBackend

__version__ = "0.1.0"

rllm_renderer_api = 1


@hookimpl
def rllm_renderer_backends() -> Iterable[Backend]:
    return (FireworksBackend(),)


def register() -> list[str]:
    """Put the cookbook's renderers into tinker_cookbook's table, as importing the cookbook does; returns their names.

    For code that calls ``tinker_cookbook.renderers.get_renderer(name)`` itself. Names that tinker_cookbook has too (``qwen3``,
    ``gpt_oss_*``) mean the cookbook's renderers there from then on; what ``rllm_renderer_core.resolve`` returns never changes.

    Raises:
        BackendUnavailableError: The cookbook can't be imported; the text says why and what to do.
    """
    from .activation import register

    return register()
