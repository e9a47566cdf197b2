"""Upstream's renderers, built so that what others registered under a built-in name changes nothing."""

from __future__ import annotations

import types
from typing import Any

from rllm_renderer_core.errors import OptionError

from . import catalog


def build(name: str, tokenizer: Any, image_processor: Any = None, model: str | None = None) -> Any:
    """A ``tinker_cookbook.renderers.Renderer`` by name.

    Upstream's ``get_renderer`` asks a table that the whole process shares before its own names, and the Fireworks cookbook
    writes names such as ``qwen3`` into it. So a built-in name is built by the same function with an empty table: a copy
    of the function whose globals differ in that one name. The shared table is neither read nor changed.

    Args:
        name: A built-in name, or one registered with ``register_renderer``.
        tokenizer: The one tokenizer that the renderer uses.
        image_processor: For vision renderers.
        model: The model's name, which upstream stores for its own pickling.
    """
    from tinker_cookbook import renderers

    get_renderer: Any = renderers.get_renderer
    if name in catalog.builtin_names():
        scope = {**vars(renderers), catalog.REGISTRY: {}}
        get_renderer = types.FunctionType(
            get_renderer.__code__, scope, get_renderer.__name__, get_renderer.__defaults__, get_renderer.__closure__
        )
    return get_renderer(name, tokenizer, image_processor, model)


def no_such_variant(thinking: bool | None, renderer: str, backend: str) -> OptionError:
    """The error for ``thinking`` where a renderer has no variant that thinks, or none that doesn't."""
    return OptionError(
        f"thinking={thinking}: backend {backend!r} has no such variant of {renderer!r}",
        fix="leave thinking out, or name another renderer=",
        option="thinking",
        backend=backend,
    )


def text_alone(renderer: str, backend: str) -> OptionError:
    """The error for ``image_processor`` where a renderer has no use for it."""
    return OptionError(
        f"image_processor: renderer {renderer!r} of backend {backend!r} renders text alone",
        fix="leave image_processor out, or name the renderer of a vision model",
        option="image_processor",
        backend=backend,
    )
