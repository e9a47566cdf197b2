"""The options of ``resolve`` on the command line, once for all commands."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import click

from .app import BadInput

RESOLVE = (
    click.option("--backend", metavar="NAME", help="Take this backend."),
    click.option("--renderer", metavar="NAME", help="Take the renderer of this name, whatever the model is called."),
    click.option("--renderer-family", metavar="NAME", help="rLLM's spelling of prime's renderers."),
    click.option("--renderer-name", metavar="NAME", help="rLLM's spelling of tinker's and Fireworks' renderers."),
    click.option("--thinking/--no-thinking", default=None, help="Whether the model thinks; its own default if left out."),
    click.option("--thinking-retention", type=click.Choice(["all", "tool_cycle"]), help="What becomes of old reasoning."),
    click.option("--template-bridge", is_flag=True, default=None, help="Let the chat template bridge where that is proven."),
    click.option("--chat-template-kwargs", metavar="JSON", callback=lambda _, option, text: json_object(option, text),
                 help="Variables of the chat template, as a JSON object."),
    click.option("--marker-text", type=click.Choice(["allow", "error"]), help="Control tokens in message text."),
    click.option("--require-bridge", is_flag=True, default=None, help="Refuse a winner that can't bridge."),
)  # fmt: skip
NAMES = (
    "backend",
    "renderer",
    "renderer_family",
    "renderer_name",
    "thinking",
    "thinking_retention",
    "template_bridge",
    "chat_template_kwargs",
    "marker_text",
    "require_bridge",
)


def resolve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of ``resolve`` to a command, which gets those that were given as one dict, ``options``."""

    @functools.wraps(function)
    def packed(**values: Any) -> Any:
        given = {name: values.pop(name) for name in NAMES}
        return function(options={name: value for name, value in given.items() if value is not None}, **values)

    decorated: Callable[..., Any] = packed
    for option in reversed(RESOLVE):
        decorated = option(decorated)
    return decorated


tokenizer_option = click.option(
    "--tokenizer", metavar="PATH", help="The model's tokenizer: a folder, a hub name, or 'demo' for Qwen3.6's vocabulary."
)


def load_tokenizer(name: str) -> Any:
    """A tokenizer by folder or hub name with transformers, or the vocabulary of the demo, which needs no transformers."""
    if name == "demo":
        from .demo_tokenizer import QwenVocabulary

        return QwenVocabulary()
    from ..vocabulary import load_tokenizer as load

    return load(name)


def json_object(option: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """The value of an option that takes a JSON object."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadInput(f"--{str(option.name).replace('_', '-')} isn't JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"--{str(option.name).replace('_', '-')} must be a JSON object, not {type(value).__name__}")
    return value
