"""The tokenizer that was passed in: what the core reads from it, its lock and its memory."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..errors import TokenizerError
from .ids import LIMIT, common_prefix

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
    get_added_vocab, decoder = (getattr(tokenizer, name, None) for name in ("get_added_vocab", "added_tokens_decoder"))
    added: dict[str, int] = dict(get_added_vocab()) if callable(get_added_vocab) else {}
    return added | ({str(token): index for index, token in decoder.items()} if isinstance(decoder, dict) else {})


_HTML = """
a abbr article b blockquote body br button caption center code dd del details div dl dt em figcaption figure font footer
form h1 h2 h3 h4 h5 h6 head header hr html i img input ins kbd label li link main mark meta nav ol option p pre q s samp
script section select small span strike strong style sub summary sup table tbody td textarea tfoot th thead title tr tt
u ul var video
"""
HTML = frozenset(_HTML.split())
"""Elements that some vocabularies (Gemma's) have as single tokens: ordinary text, which controls nothing."""


def is_plain_markup(text: str) -> bool:
    """Whether an added token that isn't special is ordinary text: white space, or an HTML element."""
    blank = text.replace("\u2581", " ")
    tag = re.fullmatch(r"</?(\w+)>", text)
    return not blank.strip() or (tag is not None and tag[1] in HTML)


def controlling_tokens(tokenizer: Any) -> frozenset[str]:
    """Texts of the added tokens that control something: of those that aren't special, without ordinary markup."""
    special = special_ids(tokenizer)
    added = added_tokens(tokenizer).items()
    return frozenset(text for text, token in added if token in special or not is_plain_markup(text))


def spelling(texts: Iterable[str]) -> str:
    """A pattern of any of the texts, the longest first, that shares their beginnings: vocabularies have thousands."""
    known = sorted(set(texts))
    shared = known[0][: common_prefix(known[0], known[-1])] if known else ""
    rests = (text[len(shared) :] for text in known if text != shared)
    branches = [spelling(group) for _, group in groupby(rests, key=lambda rest: rest[0])]
    optional = "?" if shared in known else ""
    return re.escape(shared) + (f"(?:{'|'.join(branches)}){optional}" if branches else "")


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


def without_cleanup(tokenizer: Any) -> Any:
    """The tokenizer, or a shallow copy of it whose ``decode`` leaves spaces as they are.

    Official Llama 3 tokenizers ship ``clean_up_tokenization_spaces=True``, by which ``x != y , z`` decodes to ``x!= y, z``. The
    caller's object isn't touched; the copy shares its vocabulary.
    """
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return tokenizer
    plain = copy.copy(tokenizer)
    plain.clean_up_tokenization_spaces = False
    return plain


def decoder_of(tokenizer: Any) -> Callable[[list[int]], str]:
    """Ids to text, control tokens spelled out and nothing cleaned up; ids that the vocabulary can't have are no text."""
    plain, limit = without_cleanup(tokenizer), id_limit(tokenizer) or LIMIT

    def decode(ids: list[int]) -> str:
        return str(plain.decode([token for token in ids if 0 <= token < limit], skip_special_tokens=False))

    return decode


def reasoning_ids(tokenizer: Any) -> tuple[int, int] | tuple[()]:
    """Ids that open and close reasoning, or ``()`` where the vocabulary has no such pair of single tokens."""
    added = added_tokens(tokenizer)
    for opening, closing in REASONING_MARKERS:
        if opening in added and closing in added:
            return added[opening], added[closing]
    return ()


def eos_ids(tokenizer: Any) -> list[int]:
    """The tokenizer's end-of-sequence id, with those of a ``generation_config.json`` in the tokenizer's own local folder."""
    listed: Any = None
    path = os.path.join(str(getattr(tokenizer, "name_or_path", "") or ""), "generation_config.json")
    if os.path.isfile(path):
        try:
            with open(path, encoding="utf-8") as file:
                listed = json.load(file).get("eos_token_id")
        except (OSError, ValueError, AttributeError) as error:
            raise TokenizerError(f"{path} can't be read: {error}", fix="repair it, or delete it") from error
    known = (getattr(tokenizer, "eos_token_id", None), *(listed if isinstance(listed, list) else [listed]))
    return list(dict.fromkeys(token for token in known if isinstance(token, int)))


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


def load_tokenizer(model: str) -> Any:
    """A tokenizer by name or path, with transformers. Calls at the same time share one load and its tokenizer.

    Raises:
        TokenizerError: transformers isn't installed, or can't load it; ``__cause__`` tells.
    """
    own = Future[Any]()
    shared = _loading.setdefault(model, own)
    if shared is own:
        try:
            own.set_result(_load_tokenizer(model))
        except BaseException as error:
            own.set_exception(error)
        finally:
            del _loading[model]
    return shared.result()


def _load_tokenizer(model: str) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise TokenizerError(
            f"no tokenizer was passed for {model!r}, and transformers, which would load it, isn't installed",
            fix="pass tokenizer=, or pip install transformers",
        ) from error
    try:
        return AutoTokenizer.from_pretrained(model)
    except Exception as error:
        raise TokenizerError(
            f"transformers can't load the tokenizer of {model!r}: {type(error).__name__}: {error}", fix="pass tokenizer="
        ) from error


_memories: weakref.WeakKeyDictionary[Any, dict[str, dict[Any, Any]]] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def lock_of(tokenizer: Any) -> Any:
    """One lock a tokenizer: fast tokenizers raise "already borrowed" when two threads set their padding or truncation."""
    return memory_of(tokenizer, "lock").setdefault("lock", threading.RLock())


def memory_of(tokenizer: Any, what: str) -> dict[Any, Any]:
    """A dict for what is learned of a tokenizer: the same one each time, or a new one where it can't be referred to weakly.

    Nothing in it may refer to the tokenizer, which it would keep alive for ever.
    """
    with _guard:
        try:
            return _memories.setdefault(tokenizer, {}).setdefault(what, {})
        except TypeError:  # neither hashable nor weakly referable: then what a renderer keeps itself has to do
            return {}


@dataclass(frozen=True, eq=False)
class Packed:
    """A tokenizer on its way to another process, where it unpickles as itself, or as an error that names its class."""

    tokenizer: Any

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self.tokenizer)
        with lock_of(self.tokenizer):  # another thread may be rendering with it
            return _unpacked, (f"{kind.__module__}.{kind.__qualname__}", pickle.dumps(self.tokenizer))


def packed(tokenizer: Any) -> Any:
    """The tokenizer as it is pickled.

    One whose class can't be imported by its name stays as it is: only what pickles it (cloudpickle) knows how it gets there.
    """
    kind = type(tokenizer)
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return tokenizer if tokenizer is None or found is not kind or kind.__module__ == "__main__" else Packed(tokenizer)


def _unpacked(name: str, data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError) as error:
        raise TokenizerError(
            f"the renderer's tokenizer, a {name}, can't be unpickled in this process: {type(error).__name__}: {error}",
            fix=f"make {name.rpartition('.')[0]} importable here (same packages, same PYTHONPATH), or resolve in this process",
        ) from error
