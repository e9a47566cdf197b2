"""What the core needs to know of a tokenizer, read from the object that was passed in."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future
from typing import Any

from .distributions import CORE_DISTRIBUTION, install_command
from .errors import TokenizerError

# Pairs of markers around reasoning, where each is one token of the vocabulary. Harmony has none: its channels are messages.
REASONING_MARKERS = (
    ("<think>", "</think>"),
    ("<mm:think>", "</mm:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>", "<channel|>"),
)


def control_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of the tokens that were added to the vocabulary: role tags, stops, markers; ordinary text doesn't become them."""
    return frozenset(added_tokens(tokenizer).values())


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Those of the added tokens that the tokenizer calls special; all of them where it doesn't tell."""
    decoder = getattr(tokenizer, "added_tokens_decoder", None)
    if not isinstance(decoder, dict):
        return control_ids(tokenizer)
    return frozenset(index for index, token in decoder.items() if getattr(token, "special", True))


def added_tokens(tokenizer: Any) -> dict[str, int]:
    """Text and id of each added token; empty where the tokenizer doesn't tell."""
    found: dict[str, int] = {}
    get_added_vocab = getattr(tokenizer, "get_added_vocab", None)
    if callable(get_added_vocab):
        found.update(get_added_vocab())
    decoder = getattr(tokenizer, "added_tokens_decoder", None)
    if isinstance(decoder, dict):
        found.update({str(token): index for index, token in decoder.items()})
    return found


PADDING = 4096
"""Models sample ids behind their tokenizer's, as their output layer is padded: gpt-oss by 1,069, most by less than 512."""


def id_limit(tokenizer: Any) -> int | None:
    """The number that all ids of the model are below, or ``None`` where the tokenizer doesn't tell its size.

    The size without added tokens is asked first: for the whole one, ``len``, transformers builds the whole vocabulary anew.
    """
    size = getattr(tokenizer, "vocab_size", None)
    if not isinstance(size, int):
        try:
            size = len(tokenizer)
        except Exception:  # TypeError, or whatever a stand-in raises
            return None
    return max([size, *(token + 1 for token in added_tokens(tokenizer).values())]) + PADDING


def reasoning_ids(tokenizer: Any) -> tuple[int, int] | tuple[()]:
    """Ids that open and close reasoning, or ``()`` where the vocabulary has no such pair of single tokens."""
    added = added_tokens(tokenizer)
    for opening, closing in REASONING_MARKERS:
        if opening in added and closing in added:
            return added[opening], added[closing]
    return ()


def eos_ids(tokenizer: Any) -> list[int]:
    """The tokenizer's end-of-sequence id, with those of a ``generation_config.json`` in the tokenizer's own local folder."""
    found: list[int] = []
    eos = getattr(tokenizer, "eos_token_id", None)
    if isinstance(eos, int):
        found.append(eos)
    path = os.path.join(str(getattr(tokenizer, "name_or_path", "") or ""), "generation_config.json")
    if os.path.isfile(path):
        try:
            with open(path, encoding="utf-8") as file:
                listed = json.load(file).get("eos_token_id")
        except (OSError, ValueError, AttributeError) as error:
            raise TokenizerError(f"{path} can't be read: {error}", fix="repair it, or delete it") from error
        found.extend(each for each in (listed if isinstance(listed, list) else [listed]) if isinstance(each, int))
    return list(dict.fromkeys(found))


def chat_templates(tokenizer: Any) -> dict[str, str]:
    """The sources of the tokenizer's chat templates by name: one alone is ``default``."""
    found = getattr(tokenizer, "chat_template", None)
    if isinstance(found, str):
        found = {"default": found}
    elif isinstance(found, (list, tuple)):  # as a tokenizer_config.json has them
        found = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
    if not isinstance(found, dict):
        return {}
    return {name: source for name, source in found.items() if isinstance(source, str) and source}


def chat_template(tokenizer: Any) -> str | None:
    """The source of the chat template that serving takes without tools, or with them where there is none without; else
    ``None``."""
    found = chat_templates(tokenizer)
    return found.get("default") or found.get("tool_use")


_loading: dict[str, Future[Any]] = {}
_loading_lock = threading.Lock()


def load_tokenizer(model: str) -> Any:
    """A tokenizer by name or path, with transformers. Calls at the same time share one load and its tokenizer.

    Raises:
        TokenizerError: transformers isn't installed, or can't load it; ``__cause__`` tells.
    """
    with _loading_lock:
        running = _loading.get(model)
        mine = Future[Any]() if running is None else running
        _loading[model] = mine
    if running is not None:
        return running.result()
    try:
        mine.set_result(_load_tokenizer(model))
    except BaseException as error:
        mine.set_exception(error)
    finally:
        with _loading_lock:
            del _loading[model]
    return mine.result()


def _load_tokenizer(model: str) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise TokenizerError(
            f"no tokenizer was passed for {model!r}, and transformers, which would load it, isn't installed",
            fix=f"pass tokenizer=, or {install_command(f'{CORE_DISTRIBUTION}[template]')}",
        ) from error
    try:
        return AutoTokenizer.from_pretrained(model)
    except Exception as error:
        raise TokenizerError(
            f"transformers can't load the tokenizer of {model!r}: {type(error).__name__}: {error}", fix="pass tokenizer="
        ) from error
