"""rLLM's own spellings: what its gateway, its engines and its trainers call, in the call forms of both its revisions.

rLLM says ``family`` or ``renderer_family`` for prime's renderers and ``renderer_name`` for tinker's and Fireworks'; its
``backend`` is the training backend. Nothing of rLLM is imported here, so its gateway can import this module. See docs/rllm.md.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.errors import OptionError, PluginError
from rllm_renderer_core.normal_form.tokenizer import load_tokenizer
from rllm_renderer_core.plugin import Registered
from rllm_renderer_core.plugin.discovery import load_backends, warn_once
from rllm_renderer_core.plugin.distributions import install_command
from rllm_renderer_core.plugin.hooks import renderer_names
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.resolving import resolver
from rllm_renderer_core.resolving.request import pin_of

from .optional_settings import resolve_with_optional_settings
from .renderer import RllmRenderer

logger = logging.getLogger("rllm_renderer")

PIN_VARIABLE = "RLLM_RENDERER_PIN"
"""Path of a pin file. A gateway process inherits it, so that one variable holds a trainer and its gateway to one resolution."""

TRAINING_BACKENDS = frozenset({"verl", "tinker", "fireworks"})

SOURCES = {"prime": "prime", "chat-template": "chat_template"}
"""rLLM's word for where a renderer comes from, by the name of the backend. All others are ``"tinker"``: its call sites know
these three alone, and take a renderer of a source that they don't know for none."""

PRIME_FAMILIES = ("qwen3", "qwen3.5", "qwen3.6", "deepseek-v3", "nemotron-3")
"""Families that ``renderer_name`` means too, in any spelling of the separators: rLLM made them aliases of prime's."""


@dataclass(frozen=True)
class RendererResolution:
    """What rLLM's call sites read.

    Attributes:
        renderer: For the gateway, the engines and the trainers.
        source: ``"prime"``, ``"chat_template"``, or ``"tinker"`` for every other backend; ``renderer.backend`` has its name.
        name: The backend's name of the renderer.
    """

    renderer: RllmRenderer
    source: str
    name: str

    @property
    def resolution(self) -> Resolution:
        """The record to compare, pin and verify."""
        return self.renderer.resolution


def resolve(
    model: str | None,
    tokenizer: Any,
    *,
    backend: Any = None,
    family: str | None = "auto",
    renderer_name: str | None = None,
    renderer_backend: str | None = None,
    disable_thinking: bool = False,
    reasoning_effort: str | None = None,
    **options: Any,
) -> RendererResolution:
    """The renderer of a model, as rLLM asks for it.

    Args:
        model: The model's name; ``None`` or ``""`` means the tokenizer's ``name_or_path``.
        tokenizer: The one tokenizer to use.
        backend: rLLM's *training* backend. It changes nothing: a gateway isn't told of it, and one model must have one
            renderer. The name of a renderer backend is refused here; that is ``renderer_backend``.
        family: One of prime's renderers, or ``"auto"``.
        renderer_name: One of tinker's or Fireworks' renderers; prime's where rLLM made the name an alias of it.
        renderer_backend: What ``rllm_renderer_core.resolve`` calls ``backend``.
        disable_thinking: ``thinking=False`` where the model has both modes; elsewhere it changes nothing, which is logged.
        reasoning_effort: A variable of the model's template, where it has that; elsewhere it changes nothing, which is logged.
            rLLM's default, ``"medium"``, is every such model's own.
        options: The other options of ``rllm_renderer_core.resolve``, such as ``thinking``. ``pin`` may be a path too;
            without it, the file that ``RLLM_RENDERER_PIN`` names is the pin. A pin names the model: ``model`` may be a folder
            with a checkpoint of it.

    Raises:
        RendererError: As ``rllm_renderer_core.resolve``. A family or name that nothing has is an error, not a fallback.
        PinMismatchError: What is pinned can't be reproduced here, or ``model`` is another one.
    """
    _refuse_renderer_backend(backend)
    pin = options["pin"] = read_pin(options.get("pin"))
    if pin is not None:
        model = model or getattr(tokenizer, "name_or_path", None)
    options.update(renderer_option(family, renderer_name))
    if renderer_backend is not None:
        options["backend"] = renderer_backend
    resolved = resolve_with_optional_settings(model or None, tokenizer, options, disable_thinking, reasoning_effort)
    source = SOURCES.get(resolved.backend, "tinker")
    record = resolved.resolution
    logger.info("renderer for %r: %s:%s (%s)", record.model, record.backend, record.renderer, record.reason)
    return RendererResolution(RllmRenderer(resolved), source, resolved.name)


def get_renderer(model: str | None, tokenizer: Any, **arguments: Any) -> RllmRenderer:
    """``resolve(...).renderer``."""
    return resolve(model, tokenizer, **arguments).renderer


def build_renderer(config: Any, *, tokenizer: Any = None, pin: Any = None, **options: Any) -> RllmRenderer:
    """The renderer for a gateway process, from its own configuration or from a pin; at most one tokenizer is loaded.

    Args:
        config: Anything with ``model`` and, where it has them, ``renderer_family``, ``renderer_name``, ``disable_thinking``,
            ``reasoning_effort`` and ``renderer_pin`` (the path of a pin file), as attributes or keys; rLLM's
            ``GatewayConfig``.
        tokenizer: The served model's; loaded by ``config.model`` where it isn't passed.
        pin: A ``Resolution``, its ``to_dict`` or the path of a file with that as JSON; else ``config.renderer_pin``, else
            the file that ``RLLM_RENDERER_PIN`` names.
        options: As for ``resolve``.

    Raises:
        PinMismatchError: What is pinned can't be reproduced here, before a tokenizer is loaded; or another model is served.
        NoBridgeError: No renderer with a bridge, with every backend's verdict and what to do.
        RendererError: As ``resolve``.
    """
    served = _field(config, "model")
    pinned = read_pin(pin if pin is not None else _field(config, "renderer_pin"))
    named: dict[str, Any] = {
        "family": _field(config, "renderer_family") or "auto",
        "renderer_name": _field(config, "renderer_name"),
        "disable_thinking": bool(_field(config, "disable_thinking")),
        "reasoning_effort": _field(config, "reasoning_effort"),
    }
    if pinned is not None and "image_processor" not in pinned.options:
        # Before a tokenizer is loaded, which may take long.
        resolver.select_backend(served, pin=pinned)
    model = served or (pinned.model if pinned is not None else None)
    if tokenizer is None and model is not None:
        tokenizer = load_tokenizer(model)
    options.setdefault("require_bridge", True)
    return resolve(model, tokenizer, pin=pinned, **named, **options).renderer


def read_pin(pin: Any) -> Resolution | None:
    """A pin from a ``Resolution``, a mapping, the path of a JSON file, or ``None``: the file of ``RLLM_RENDERER_PIN``.

    Raises:
        PinMismatchError: The file isn't there, or holds no pin.
    """
    return pin_of(pin if pin is not None else os.environ.get(PIN_VARIABLE) or None)


def _field(config: Any, name: str) -> Any:
    value = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
    return value or None


def _refuse_renderer_backend(backend: Any) -> None:
    name = getattr(backend, "value", backend)
    if name is None or name in TRAINING_BACKENDS:
        return
    if name in {registered.backend.name for registered in load_backends().registered}:
        raise OptionError(
            f"backend={name!r}: backend is rLLM's training backend here ({', '.join(sorted(TRAINING_BACKENDS))})",
            fix=f"renderer_backend={name!r}",
            option="backend",
        )


def renderer_option(family: str | None, renderer_name: str | None) -> dict[str, str]:
    """The option of ``rllm_renderer_core.resolve`` that names the renderer, or none."""
    named = {"renderer_family": family, "renderer_name": renderer_name}
    options = [_option_that_names(spelling, name) for spelling, name in named.items() if is_named(name)]
    if len(options) == 2 and options[0] != options[1]:
        raise OptionError(
            f"family={family!r} and renderer_name={renderer_name!r} name two renderers",
            fix="pass one of them, and the same to the engine and the gateway",
            option="renderer_name",
        )
    return options[0] if options else {}


def is_named(name: str | None) -> bool:
    """Whether a family or renderer name of rLLM's names anything."""
    return name not in (None, "", "auto")


def _option_that_names(spelling: str, name: Any) -> dict[str, str]:
    """``{spelling: name}`` if a backend that declares the spelling has the name; else ``{"renderer": name}`` of any backend."""
    registered = load_backends().registered
    family = next((family for family in PRIME_FAMILIES if _letters(family) == _letters(name)), None)
    if spelling == "renderer_name" and family is not None:
        if any("renderer_family" in one.backend.spellings for one in registered):
            return {"renderer_family": family}
        fix = install_command("rllm-renderer-prime")
        warn_once(f"renderer_name={name!r} means prime's {family} in rLLM, which isn't here: {fix}")
    backends = [one.backend for one in registered if _has(one, name)]
    if backends and not any(spelling in backend.spellings for backend in backends):
        return {"renderer": name}
    return {spelling: name}


def _has(registered: Registered, name: Any) -> bool:
    try:
        return name in renderer_names(registered)
    except PluginError:  # said where that backend is asked for
        return False


def _letters(name: str) -> str:
    return re.sub(r"[-_.]", "", name)
