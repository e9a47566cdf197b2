"""Settings that rLLM has for every model and only some models know: applied where it does, logged where it doesn't."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from rllm_renderer_core.errors import NoBackendError, OptionError
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.resolving import resolver

from .http_errors import with_rllm_names

DEFAULT_EFFORT = "medium"
"""rLLM's default of ``reasoning_effort``, which every model that has that variable takes for its own."""

logger = logging.getLogger("rllm_renderer")


def resolve_with_optional_settings(
    model: str | None, tokenizer: Any, options: dict[str, Any], disable_thinking: bool, reasoning_effort: str | None
) -> ResolvedRenderer:
    """``resolve(model, tokenizer, **options)``, with as many of rLLM's optional settings as the model has a mode for.

    Args:
        model: As ``resolve`` has it, and ``tokenizer``.
        options: Of ``resolve``. An ``image_processor`` among them makes tinker's image chunks one of the settings.
        disable_thinking: ``thinking=False``, unless ``options`` have ``thinking``.
        reasoning_effort: A variable of the chat template.

    Raises:
        RendererError: As ``resolve``, for what isn't optional.
    """
    settings: dict[str, dict[str, Any]] = {}
    if options.get("image_processor") is not None and options["pin"] is None and "backend" not in options:
        settings["images as tinker's chunks"] = {"backend": "tinker"}
    if disable_thinking and options.get("thinking") is None:
        settings["disable_thinking"] = {"thinking": False}
    if reasoning_effort not in (None, DEFAULT_EFFORT):
        variables = options.get("chat_template_kwargs") or {}
        settings["reasoning_effort"] = {"chat_template_kwargs": {**variables, "reasoning_effort": reasoning_effort}}
    while True:
        added = {option: value for setting in settings.values() for option, value in setting.items()}
        try:
            return resolver.resolve(model, tokenizer, **{**options, **added})
        except (OptionError, NoBackendError) as error:
            if not settings:
                raise with_rllm_names(error) from error.__cause__
            refused = getattr(error, "option", "")
            name = next((name for name, setting in settings.items() if refused in setting), list(settings)[-1])
            del settings[name]
            logger.info("%r has no mode for %s, which changes nothing: %s", model, name, str(error).splitlines()[0])


def at_reasoning_effort(resolved: ResolvedRenderer, effort: str) -> ResolvedRenderer:
    """The same renderer at another ``reasoning_effort``; the same object where it has that one, or knows none at all."""
    record = resolved.resolution
    options = dict(record.options)
    variables = dict(options.pop("chat_template_kwargs", None) or {})
    if variables.pop("reasoning_effort", DEFAULT_EFFORT) == effort:
        return resolved
    if effort != DEFAULT_EFFORT:
        variables["reasoning_effort"] = effort
    pin = replace(record, options={**options, "chat_template_kwargs": variables} if variables else options, written="")
    processor = resolved.query.image_processor
    try:
        # Parity was checked when ``resolved`` was made; it isn't checked again for each effort.
        return resolver.resolve(record.model, resolved.tokenizer, pin=pin, image_processor=processor, parity="off")
    except OptionError as error:
        reason = str(error).splitlines()[0]
        logger.info("%r has no mode for reasoning_effort=%r, which changes nothing: %s", record.model, effort, reason)
        return resolved
