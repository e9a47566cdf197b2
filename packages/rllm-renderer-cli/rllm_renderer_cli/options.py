"""The options of ``resolve`` for all commands, and the tokenizer. What can't be used is a ``BadInput``."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable
from typing import Any

import click

from rllm_renderer_core.errors import TokenizerError
from rllm_renderer_core.resolving.request import CHOICES

from .files import parsed, read_pin
from .wording import BadInput

HELP = {
    "backend": "Take this backend.",
    "renderer": "Take the renderer of this name, whatever the model is.",
    "renderer_family": "rLLM's spelling of prime's renderers.",
    "renderer_name": "rLLM's spelling of tinker's or Fireworks' ones.",
    "thinking": "Whether the model thinks; or its own default.",
    "thinking_retention": "What becomes of old reasoning.",
    "template_bridge": "Whether the chat template bridges where that is proven.",
    "chat_template_kwargs": "Variables of the chat template, as a JSON object.",
    "marker_text": "What becomes of control tokens in message text.",
    "dropped": "What becomes of messages and tools that the format leaves out.",
    "date": "The day that formats with a date show; today if left out.",
    "require_bridge": "Refuse a winner that can't bridge.",
    "require_tools": "Refuse a winner that can't parse tool calls.",
    "parity": "What a difference from the chat template is.",
    "parse_check": "Whether parsed completions are checked against their ids.",
    "detect": "Look for the renderer by the chat template where no name is listed.",
    "pin": "A resolution as JSON: exactly that, or an error that says what differs.",
}
"""The keywords of ``resolve`` that can be given on the command line."""
METAVARS = {"chat_template_kwargs": "JSON", "date": "YYYY-MM-DD", "pin": "FILE"}


def _option(name: str) -> Callable[..., Any]:
    """The flag of a keyword; its choices are those of ``resolve``."""
    flag, choices = name.replace("_", "-"), CHOICES.get(name, ())
    if name.startswith("require_"):
        return click.option(f"--{flag}", is_flag=True, default=None, help=HELP[name])
    if True in choices or name == "template_bridge":
        return click.option(f"--{flag}/--no-{flag}", default=None, help=HELP[name])
    if choices:
        return click.option(f"--{flag}", type=click.Choice([str(choice) for choice in choices]), help=HELP[name])

    def read(_: click.Context, __: click.Parameter, text: str | None) -> Any:
        if text is None or name == "pin":
            return text if text is None else read_pin(text)
        value = parsed(text, f"--{flag}")
        if not isinstance(value, dict):
            raise BadInput(f"--{flag} must be a JSON object, not {type(value).__name__}")
        return value

    is_text = name not in ("pin", "chat_template_kwargs")
    return click.option(f"--{flag}", metavar=METAVARS.get(name, "NAME"), callback=None if is_text else read, help=HELP[name])


RESOLVE = {name: _option(name) for name in HELP}
"""Decorators by the keyword of ``resolve`` that each sets."""


def resolve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of ``resolve`` to a command, which gets those that were given as one dict, ``options``."""

    @functools.wraps(function)
    def packed(**values: Any) -> Any:
        given = {name: values.pop(name) for name in RESOLVE}
        return function(options={name: value for name, value in given.items() if value is not None}, **values)

    decorated: Callable[..., Any] = packed
    for option in reversed(RESOLVE.values()):
        decorated = option(decorated)
    return decorated


tokenizer_option = click.option(
    "--tokenizer", metavar="PATH", help="The model's tokenizer: a folder, a hub name, or 'demo' for Qwen3.6's vocabulary."
)

TOKENIZER_FILES = ("tokenizer", "vocab", "tekken", "config.json", "special_tokens_map.json")
"""How the names of files begin of which a folder with a tokenizer has one."""


def load_tokenizer(name: str) -> Any:
    """A tokenizer by folder or hub name with transformers, or the vocabulary of the demo, which needs no transformers."""
    if name == "demo":
        from .demo.tokenizer import QwenVocabulary

        return QwenVocabulary()
    check_tokenizer(name)
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    try:
        return vocabulary.load_tokenizer(name)
    except TokenizerError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        what = str(error).removesuffix(f"\n  fix: {error.fix}")
        where = "a folder that holds the tokenizer" if os.path.isdir(name) else "the right hub name, or a folder that is here"
        raise BadInput(f"{what}\n  fix: --tokenizer PATH, with {where}") from error


def check_tokenizer(name: str) -> None:
    """What is wrong with a tokenizer's path, without loading anything."""
    if os.path.isdir(name):
        if not _holds_tokenizer(name):
            raise BadInput(f"the folder {name} holds no tokenizer\n  fix: --tokenizer PATH, the folder with tokenizer.json")
    elif os.path.exists(name):
        folder = os.path.dirname(name) or "."
        fix = shlex.quote(folder) if _holds_tokenizer(folder) else "PATH, the folder with tokenizer.json"
        raise BadInput(f"{name} is a file, and a tokenizer is a folder\n  fix: --tokenizer {fix}")
    elif is_path(name):
        raise BadInput(f"there is no folder {name}\n  fix: --tokenizer PATH, a folder that is there, or a hub name")


def _holds_tokenizer(folder: str) -> bool:
    return any(file.startswith(TOKENIZER_FILES) or file.endswith((".model", ".tiktoken")) for file in os.listdir(folder))


def is_path(name: str) -> bool:
    """Whether a model's or tokenizer's name can be no hub name: those have one slash at most."""
    return name.startswith((".", "~", os.sep)) or name.endswith(os.sep) or name.count("/") > 1


def tokenizer_of(model: str, tokenizer: str | None) -> Any:
    """The tokenizer that was named, or that lies in the folder that MODEL is: a checkpoint is what its template says."""
    if tokenizer is not None:
        return load_tokenizer(tokenizer)
    return load_tokenizer(model) if os.path.isdir(model) or is_path(model) else None
