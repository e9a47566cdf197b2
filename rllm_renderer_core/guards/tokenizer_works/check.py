"""What a tokenizer must do for any backend: name its parts, give text back, and encode a special token as one id."""

from __future__ import annotations

import re
from typing import Any

from ...errors import TokenizerError
from ...normal_form.tokenizer import chat_templates, lock_of, memory_of, without_cleanup

METHODS = ("encode", "decode", "convert_tokens_to_ids", "get_added_vocab")
SAMPLE = "Add  12345 to\n\n\tx = 1.50;  \u00e9 \u4e2d\u6587 \u0440\u0443\u0441 \u0639\u0631\u0628 \ud55c \U0001f642\U0001f680"
"""Runs of blanks, line breaks, a tab, digits, punctuation, five scripts and emoji, in Unicode's composed form (NFC)."""

_SPECIAL = re.compile(r"[<\[]\S{1,40}?[>\]]")
_MOST = 24
_USABLE = "pass the model's tokenizer as AutoTokenizer.from_pretrained returns it, a fast one (use_fast=True)"


def check_tokenizer(tokenizer: Any) -> None:
    """Refuse a tokenizer that can't be rendered with. Each is checked once; a stand-in without ``encode`` isn't judged, nor is
    what raises when it is asked.

    Raises:
        TokenizerError: It lacks a method, changes text, or encodes a special token as ordinary text.
    """
    split = bool(getattr(tokenizer, "split_special_tokens", False))
    checked = memory_of(tokenizer, "works")
    if split in checked or not callable(getattr(tokenizer, "encode", None)):
        return
    kind = type(tokenizer).__name__
    lacks = [name for name in METHODS if not callable(getattr(tokenizer, name, None))]
    if lacks:
        raise TokenizerError(f"no backend can work with this tokenizer: {kind} has no {', no '.join(lacks)}", fix=_USABLE)
    with lock_of(tokenizer):
        changed, spelled = _changed(tokenizer), _spelled_out(tokenizer)
    if changed is not None:
        raise TokenizerError(
            f"this tokenizer, a {kind}, changes text: {SAMPLE!r} is decoded from its own ids as {changed!r}",
            fix="load its files with transformers.PreTrainedTokenizerFast.from_pretrained, which reads tokenizer.json as is: "
            f"the class that AutoTokenizer took, {kind}, may be another model's",
        )
    if spelled is not None:
        cause = ", as its split_special_tokens is true" if split else ""
        raise TokenizerError(
            f"this tokenizer, a {kind}, encodes its special token {spelled!r} as ordinary text{cause}",
            fix="load it with split_special_tokens=False" if split else "pass the model's tokenizer, with its special tokens",
        )
    checked[split] = True


def lacking(tokenizer: Any, error: BaseException, renderer: str) -> TokenizerError | None:
    """The error to raise where ``error``, which ``backend:renderer`` raised, came of what the tokenizer lacks; or ``None``."""
    kind = type(tokenizer).__name__
    what = None
    if isinstance(error, AttributeError) and error.name and type(error.obj).__name__ == kind:
        what = f"has no {error.name}"
    elif isinstance(error, TypeError) and f"{kind!r} has no len()" in str(error):
        what = "has no __len__"
    elif isinstance(error, NotImplementedError) and getattr(tokenizer, "is_fast", True) is False:
        what = f"is python-only, and this needs a fast one: {str(error) or type(error).__name__}"
    if what is None:
        return None
    return TokenizerError(f"{renderer} can't work with this tokenizer: {kind} {what}", fix=_USABLE)


def _changed(tokenizer: Any) -> str | None:
    """What becomes of the sample, where that is another text; a SentencePiece prefix space is no change."""
    try:
        ids = tokenizer.encode(SAMPLE, add_special_tokens=False)
        text = str(without_cleanup(tokenizer).decode(ids, skip_special_tokens=False))
    except Exception:  # a stand-in that takes other arguments, or only its own letters
        return None
    return None if text.removeprefix(" ") == SAMPLE else text


def _spelled_out(tokenizer: Any) -> str | None:
    """A special token that isn't one id when encoded, of the end of sequence and those that the chat template spells."""
    try:
        spelled = (text for source in chat_templates(tokenizer).values() for text in _SPECIAL.findall(source))
        texts = dict.fromkeys(text for text in (getattr(tokenizer, "eos_token", None), *spelled) if text)
        unknown = (None, getattr(tokenizer, "unk_token_id", None))
        ids = {text: tokenizer.convert_tokens_to_ids(text) for text in [*texts][:_MOST]}
        known = {text: token for text, token in ids.items() if token not in unknown}
        split = [text for text, token in known.items() if list(tokenizer.encode(text, add_special_tokens=False)) != [token]]
        # The added tokens are asked for last: it takes 20 ms where there are thousands.
        added = tokenizer.get_added_vocab() if split else ()
        return next((text for text in split if text in added), None)
    except Exception:
        return None
