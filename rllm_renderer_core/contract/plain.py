"""The tokenizer that backends get under ``marker_text="literal"``: guarded control tokens become ordinary text.

It is the user's tokenizer in everything but this: where a text holds guards, the control tokens without one are looked up, and
all that lies between them is tokenized by a twin of the tokenizer that knows no control tokens. So message text can't become a
control id, whichever renderer or template it goes through.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import TokenizerError
from .markers import GUARD, Markers, unguarded

Piece = tuple[list[int], list[tuple[int, int]]]
"""Ids, and the span of characters that each of them comes from."""

SAMPLES = (
    "Plain words, 12345.678 and x != y , z's",
    "  two spaces\n\n\tand\r\nbreaks \n ",
    "Größe 日本語 émigré 😀 العربية हिन्दी",
    "def f(a):\n    return {'k': [1, 2]}\n",
    '{"q": "a\\nb", "n": 0.5}',
    " leading",
    "trailing ",
)
"""Ordinary texts on which the twin must agree with the tokenizer."""


_Known = tuple[list[str], Markers, Callable[[str], Piece]]
_twins: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()
"""What is known of a tokenizer, as long as it lives: its added tokens, its markers and its twin, which took seconds to make."""


class LiteralTokenizer:
    """The user's tokenizer, but for guarded texts.

    Args:
        tokenizer: A tokenizer of transformers, fast or slow.

    Raises:
        TokenizerError: It can't be told how the tokenizer would treat a control token as ordinary text.
    """

    def __init__(self, tokenizer: Any) -> None:
        added = getattr(tokenizer, "added_tokens_decoder", None)
        if not isinstance(added, dict) or not added:
            raise _refusal(tokenizer, "it doesn't tell its added tokens")
        self.real = tokenizer
        self._tokens = {str(token): (index, token) for index, token in added.items()}
        known = _twins.get(tokenizer) if _weak(tokenizer) else None
        if known is None or known[0] != list(self._tokens):
            markers = Markers({text: bool(getattr(token, "special", True)) for text, (_, token) in self._tokens.items()})
            known = list(self._tokens), markers, _twin(tokenizer, markers)
            self._take(known)
            self._prove()
            if _weak(tokenizer):
                _twins[tokenizer] = known
        self._take(known)

    def _take(self, known: _Known) -> None:
        _, self.markers, self._twin = known
        self.control = frozenset(self._tokens[text][0] for text in self.markers.texts)

    @property
    def __class__(self) -> type:  # so that ``isinstance`` sees what the backend expects
        return type(self.real)

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of a tokenizer can't be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return LiteralTokenizer, (self.real,)

    def __getattr__(self, name: str) -> Any:
        if name == "real":  # not there yet, while it is unpickled or copied
            raise AttributeError(name)
        return getattr(self.real, name)

    def __len__(self) -> int:
        return len(self.real)

    # Text to ids

    def encode(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        """As the tokenizer's ``encode``; guarded control tokens as ordinary text."""
        if not isinstance(text, str) or GUARD not in text:
            return self.real.encode(text, *args, **kwargs)
        before, after = self._around(args, kwargs)
        return [*before, *self._pieces(text)[0], *after]

    def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As the tokenizer's call: ``input_ids``, and ``offset_mapping`` in characters of the guarded text."""
        if not isinstance(text, str) or GUARD not in text:
            return self.real(text, *args, **kwargs)
        before, after = self._around(args, kwargs)
        ids, offsets = self._pieces(text)
        out = {"input_ids": [*before, *ids, *after]}
        out["attention_mask"] = [1] * len(out["input_ids"])
        if kwargs.get("return_offsets_mapping"):
            out["offset_mapping"] = [*[(0, 0)] * len(before), *offsets, *[(0, 0)] * len(after)]  # type: ignore[list-item]
        return out

    def apply_chat_template(self, conversation: Any, *args: Any, tokenize: bool = True, **kwargs: Any) -> Any:
        """As the tokenizer's; where the rendered text holds guards, its ids as of ``encode``."""
        if not tokenize:
            return self.real.apply_chat_template(conversation, *args, tokenize=False, **kwargs)
        wanted_dict = kwargs.pop("return_dict", True)
        text = self.real.apply_chat_template(conversation, *args, tokenize=False, **kwargs)
        ids = self.encode(text, add_special_tokens=False)
        return {"input_ids": ids, "attention_mask": [1] * len(ids)} if wanted_dict else ids

    def _pieces(self, text: str) -> Piece:
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for start, end, control in self._split(text):
            if control is not None:
                ids.append(control)
                offsets.append((start, end))
            else:
                more, spans = self._ordinary(text[start:end])
                ids += more
                offsets += [(start + a, start + b) for a, b in spans]
        return ids, offsets

    def _split(self, text: str) -> Iterator[tuple[int, int, int | None]]:
        """Spans of control tokens, with their ids, and of what lies between them."""
        at = 0
        for match in self.markers.pattern.finditer(text):
            start, end = match.span()
            index, token = self._tokens[match[0]]
            if start < at or (getattr(token, "single_word", False) and _in_word(text, start, end)):
                continue
            if getattr(token, "lstrip", False):
                start = at + len(text[at:start].rstrip())
            if getattr(token, "rstrip", False):
                end += len(text[end:]) - len(text[end:].lstrip())
            if start > at:
                yield at, start, None
            yield start, end, index
            at = end
        if at < len(text):
            yield at, len(text), None

    def _ordinary(self, text: str) -> Piece:
        ids, spans = self._twin(unguarded(text))
        cuts: list[int] = []
        at = text.find(GUARD)
        while at >= 0:
            cuts.append(at - len(cuts) * len(GUARD))  # as a position in the text without guards
            at = text.find(GUARD, at + len(GUARD))
        if not cuts:
            return ids, spans
        return ids, [(_moved(start, cuts), _moved(end, cuts)) for start, end in spans]

    def _around(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[int], list[int]]:
        """What the tokenizer puts around a text by itself, unless it is told not to."""
        if kwargs.get("add_special_tokens", args[0] if args and isinstance(args[0], bool) else True) is False:
            return [], []
        bare, whole = self.real.encode("x", add_special_tokens=False), self.real.encode("x")
        at = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
        return whole[:at], whole[at + len(bare) :]

    # Ids to text

    def decode(self, token_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """As the tokenizer's ``decode``, with a guard in each control token that was sampled as ordinary tokens."""
        text = self.real.decode(token_ids, *args, **kwargs)
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        if not isinstance(text, str) or not self.markers.in_text(text):
            return text
        out: list[str] = []
        run: list[int] = []
        for token in ids:
            if token not in self.control:
                run.append(token)
                continue
            out += [self.markers.guarded(self.real.decode(run, *args, **kwargs))] if run else []
            out.append(self.real.decode([token], *args, **kwargs))
            run = []
        out += [self.markers.guarded(self.real.decode(run, *args, **kwargs))] if run else []
        guarded = "".join(out)
        return guarded if unguarded(guarded) == text else text

    def _prove(self) -> None:
        """The twin on texts without and with control tokens, before anything is rendered.

        Raises:
            TokenizerError: It differs from the tokenizer on ordinary text, or makes control ids of guarded ones.
        """
        for text in SAMPLES:
            for whole in (text, *(f"{text}{marker}{text}" for marker in sorted(self.markers.texts)[:24])):
                if self.encode(GUARD + whole, add_special_tokens=False) != self.real.encode(whole, add_special_tokens=False):
                    raise _refusal(self.real, f"without its control tokens it treats ordinary text differently: {whole!r}")
        spelled = "".join(sorted(self.markers.texts))
        made = self.control.intersection(self.encode(self.markers.guarded(spelled), add_special_tokens=False))
        if made:
            raise _refusal(self.real, f"its ordinary vocabulary writes {self.real.decode([min(made)])!r} by itself")


def _twin(tokenizer: Any, markers: Markers) -> Callable[[str], Piece]:
    """Text to ids and spans, by the same model without control tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        from tokenizers import Tokenizer  # type: ignore[import-untyped, unused-ignore]

        data = json.loads(backend.to_str())
        data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] not in markers.texts]
        data["truncation"] = data["padding"] = data["post_processor"] = None
        plain = Tokenizer.from_str(json.dumps(data))

        def fast(text: str) -> Piece:
            encoding = plain.encode(text, add_special_tokens=False)
            return list(encoding.ids), list(encoding.offsets)

        return fast
    pieces, ids = getattr(tokenizer, "_tokenize", None), getattr(tokenizer, "convert_tokens_to_ids", None)
    if not callable(pieces) or not callable(ids):
        raise _refusal(tokenizer, "it is neither a fast nor a slow tokenizer of transformers")

    def slow(text: str) -> Piece:
        found = list(ids(list(pieces(text))))
        return found, [(0, len(text))] * len(found)

    return slow


def _weak(tokenizer: Any) -> bool:
    """Whether something can be remembered for as long as the tokenizer lives."""
    try:
        weakref.ref(tokenizer)
        hash(tokenizer)
    except TypeError:
        return False
    return True


def _moved(position: int, cuts: Sequence[int]) -> int:
    """A position in a text without guards, as one in the text with them."""
    return position + sum(cut < position for cut in cuts) * len(GUARD)


def _in_word(text: str, start: int, end: int) -> bool:
    return (start > 0 and text[start - 1].isalnum()) or (end < len(text) and text[end].isalnum())


def _refusal(tokenizer: Any, why: str) -> TokenizerError:
    return TokenizerError(
        f"marker_text='literal' can't be had with this tokenizer ({type(tokenizer).__name__}): {why}",
        fix="use marker_text='error', which refuses texts that spell a control token",
    )
