"""What rLLM asks of every model, and only some have: honoured where the model has a mode for it, said where it hasn't."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from rllm_renderer_core.errors import NoBackendError, OptionError
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.resolving import resolver

from .refusals import in_rllms_words

logger = logging.getLogger("rllm_renderer")


def resolved_as_wished(
    model: str | None, tokenizer: Any, options: dict[str, Any], disable_thinking: bool, reasoning_effort: str | None
) -> ResolvedRenderer:
    """With each wish of rLLM's that the model has a mode for, and images as chunks where a backend gives them so."""
    wishes: dict[str, dict[str, Any]] = {}
    if options.get("image_processor") is not None and options["pin"] is None and "backend" not in options:
        wishes["images as chunks of tinker's"] = {"backend": "tinker"}
    if disable_thinking and options.get("thinking") is None:
        wishes["disable_thinking"] = {"thinking": False}
    if reasoning_effort not in (None, "medium"):
        given = options.get("chat_template_kwargs") or {}
        wishes["reasoning_effort"] = {"chat_template_kwargs": {**given, "reasoning_effort": reasoning_effort}}
    while True:
        wanted = {key: value for wish in wishes.values() for key, value in wish.items()}
        try:
            return resolver.resolve(model, tokenizer, **{**options, **wanted})
        except (OptionError, NoBackendError) as error:
            if not wishes:
                raise in_rllms_words(error) from error.__cause__
            option = getattr(error, "option", "")
            name = next((each for each, wish in wishes.items() if option in wish), list(wishes)[-1])
            del wishes[name]
            logger.info("%r has no mode for %s, which changes nothing: %s", model, name, str(error).splitlines()[0])


def with_effort(resolved: ResolvedRenderer, effort: str) -> ResolvedRenderer:
    """The same renderer at another ``reasoning_effort``, as a pin of it; the same object where it has that, or none at all."""
    record = resolved.resolution
    options = dict(record.options)
    given = dict(options.pop("chat_template_kwargs", None) or {})
    if given.pop("reasoning_effort", "medium") == effort:
        return resolved
    if effort != "medium":
        given["reasoning_effort"] = effort
    pin = replace(record, options={**options, "chat_template_kwargs": given} if given else options, written="")
    try:
        # compared with the chat template once, when it was resolved
        shows = resolved.query.image_processor
        return resolver.resolve(record.model, resolved.tokenizer, pin=pin, image_processor=shows, parity="off")
    except OptionError as error:
        said = str(error).splitlines()[0]
        logger.info("%r has no mode for reasoning_effort=%r, which changes nothing: %s", record.model, effort, said)
        return resolved
