"""The options of ``resolve`` on the command line, once for all commands."""

from __future__ import annotations

import functools
import json
import os
import shlex
from collections.abc import Callable
from typing import Any

import click

from rllm_renderer_core.errors import PinMismatchError, TokenizerError
from rllm_renderer_core.renderer.resolution import Resolution

from .wording import BadInput, describe

RESOLVE = {
    "backend": click.option("--backend", metavar="NAME", help="Take this backend."),
    "renderer": click.option("--renderer", metavar="NAME", help="Take the renderer of this name, whatever the model is."),
    "renderer_family": click.option("--renderer-family", metavar="NAME", help="rLLM's spelling of prime's renderers."),
    "renderer_name": click.option("--renderer-name", metavar="NAME", help="rLLM's spelling of tinker's or Fireworks' ones."),
    "thinking": click.option("--thinking/--no-thinking", default=None, help="Whether the model thinks; or its own default."),
    "thinking_retention": click.option(
        "--thinking-retention", type=click.Choice(["all", "tool_cycle"]), help="What becomes of old reasoning."
    ),
    "template_bridge": click.option(
        "--template-bridge/--no-template-bridge", default=None, help="Whether the chat template bridges where that is proven."
    ),
    "chat_template_kwargs": click.option(
        "--chat-template-kwargs",
        metavar="JSON",
        callback=lambda _, option, text: json_object(option, text),
        help="Variables of the chat template, as a JSON object.",
    ),
    "marker_text": click.option(
        "--marker-text",
        type=click.Choice(["allow", "error", "literal"]),
        help="What becomes of control tokens in message text.",
    ),
    "dropped": click.option(
        "--dropped", type=click.Choice(["error", "warn"]), help="What becomes of messages and tools that the format leaves out."
    ),
    "date": click.option("--date", metavar="YYYY-MM-DD", help="The day that formats with a date show; today if left out."),
    "require_bridge": click.option("--require-bridge", is_flag=True, default=None, help="Refuse a winner that can't bridge."),
    "require_tools": click.option(
        "--require-tools", is_flag=True, default=None, help="Refuse a winner that can't parse tool calls."
    ),
    "parity": click.option(
        "--parity", type=click.Choice(["prefer", "warn", "error", "off"]), help="What a difference from the chat template is."
    ),
    "parse_check": click.option(
        "--parse-check", type=click.Choice(["on", "off"]), help="Whether parsed completions are checked against their ids."
    ),
    "detect": click.option(
        "--detect/--no-detect", default=None, help="Look for the renderer by the chat template where no name is listed."
    ),
    "pin": click.option(
        "--pin",
        metavar="FILE",
        callback=lambda _, option, file: None if file is None else read_pin(file),
        help="A resolution as JSON: exactly that, or an error that says what differs.",
    ),
}
"""Options by the keyword of ``resolve`` that each sets."""


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
    """A tokenizer by folder or hub name with transformers, or the vocabulary of the demo, which needs no transformers.

    Raises:
        BadInput: There is none; said before a hub is asked where the name is a path.
    """
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
    """What is wrong with a tokenizer's path, without loading anything.

    Raises:
        BadInput: It is a file, or nothing, or a folder without a tokenizer.
    """
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
    """The tokenizer that was named, or that lies in the folder that MODEL is: a checkpoint is what its template says.

    Raises:
        BadInput: MODEL is a path, and no folder with a tokenizer.
    """
    if tokenizer is not None:
        return load_tokenizer(tokenizer)
    return load_tokenizer(model) if os.path.isdir(model) or is_path(model) else None


def read_json(file: str) -> Any:
    """The value in a JSON file; ``-`` is stdin."""
    text = read_text(file)
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{name_of(file)} isn't JSON: {error}") from error


def name_of(file: str) -> str:
    """What a file is called in messages."""
    return "stdin" if file == "-" else file


def read_text(file: str) -> str:
    """The text of a JSON file; ``-`` is stdin."""
    name = name_of(file)
    if os.path.isdir(file):
        raise BadInput(f"{file} is a folder, not a JSON file")
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            return str(stream.read())
    except OSError as error:
        raise BadInput(f"can't read {name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} isn't UTF-8 text: {error.reason} at byte {error.start}") from error


PIN_FIX = "\n  fix: write it again: rllm-renderer pin MODEL > FILE"


def read_pin(file: str) -> Resolution:
    """The resolution in a file, or on stdin for ``-``.

    Raises:
        BadInput: It can't be read, or holds none.
    """
    try:
        value = read_json(file)
    except BadInput as error:
        raise BadInput(f"{error.message}{PIN_FIX}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{name_of(file)} must hold a resolution as a JSON object, not {type(value).__name__}{PIN_FIX}")
    try:
        return Resolution.from_dict(value)
    except PinMismatchError as error:
        raise BadInput(f"{name_of(file)}: {describe(error)}") from error


def write_text(file: str, text: str) -> None:
    """Writes a command's own file.

    Raises:
        BadInput: It can't be written.
    """
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise BadInput(f"can't write {file}: {error.strerror or error}") from error


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
