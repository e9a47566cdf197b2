"""The tokenizer that backends get under ``marker_text="literal"``: guarded control tokens become ordinary text.

It is the user's tokenizer in everything but this: where a text holds guards, the control tokens without one are looked up, and
all that lies between them is tokenized by a twin of the tokenizer that knows no control tokens. So message text can't become a
control id, whichever renderer or template it goes through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...normal_form.tokenizer import memory_of
from .marked import MarkedTokenizer, refusal
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


class LiteralTokenizer(MarkedTokenizer):
    """The user's tokenizer, but for guarded texts.

    Args:
        tokenizer: A tokenizer of transformers, fast or slow.

    Raises:
        TokenizerError: It can't be told how the tokenizer would treat a control token as ordinary text.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        known = memory_of(tokenizer, "twin")  # it took seconds to make
        added = tuple(self._tokens)
        if added not in known:
            self._twin, self._by_pieces = _twin(tokenizer, self.markers), _normalizes_markers(tokenizer, self.markers)
            self._prove()
            known.clear()
            known[added] = self.markers, self._twin, self._by_pieces
        self.markers, self._twin, self._by_pieces = known[added]

    # Text to ids

    def encode(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        """As the tokenizer's ``encode``; guarded control tokens as ordinary text."""
        if not isinstance(text, str) or not (self._by_pieces or GUARD in text):
            return self.real.encode(text, *args, **kwargs)
        before, after = self._around(args, kwargs)
        return [*before, *self._pieces(text)[0], *after]

    def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As the tokenizer's call: ``input_ids``, and ``offset_mapping`` in characters of the guarded text."""
        if not isinstance(text, str) or not (self._by_pieces or GUARD in text):
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
        # Where guards stand, as positions in the text without them.
        cuts = [match.start() - before * len(GUARD) for before, match in enumerate(re.finditer(GUARD, text))]
        return ids, [(_moved(start, cuts), _moved(end, cuts)) for start, end in spans]

    def _around(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[int], list[int]]:
        """What the tokenizer puts around a text by itself, unless it is told not to."""
        if kwargs.get("add_special_tokens", args[0] if args and isinstance(args[0], bool) else True) is False:
            return [], []
        bare, whole = self.real.encode("x", add_special_tokens=False), self.real.encode("x")
        at = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
        return whole[:at], whole[at + len(bare) :]

    # Proof

    def _prove(self) -> None:
        """The twin on texts without and with control tokens, before anything is rendered.

        Raises:
            TokenizerError: It differs from the tokenizer on ordinary text, or makes control ids of guarded ones.
        """
        for text in SAMPLES:
            for whole in (text, *(f"{text}{marker}{text}" for marker in sorted(self.markers.texts)[:24])):
                if self.encode(GUARD + whole, add_special_tokens=False) != self.real.encode(whole, add_special_tokens=False):
                    raise refusal(self.real, f"without its control tokens it treats ordinary text differently: {whole!r}")
        spelled = "".join(sorted(self.markers.texts))
        made = self.control.intersection(self.encode(self.markers.guarded(spelled), add_special_tokens=False))
        if made:
            raise refusal(self.real, f"its ordinary vocabulary writes {self.real.decode([min(made)])!r} by itself")


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
        raise refusal(tokenizer, "it is neither a fast nor a slow tokenizer of transformers")

    def slow(text: str) -> Piece:
        found = list(ids(list(pieces(text))))
        return found, [(0, len(text))] * len(found)

    return slow


def _normalizes_markers(tokenizer: Any, markers: Markers) -> bool:
    """Whether it looks for some control tokens in the normalized text: there other texts become them (``＜end＞`` by NFKC).

    Then no text is left to it, guarded or not.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.normalizer is None:
        return False
    added = tokenizer.added_tokens_decoder.values()
    texts = [str(token) for token in added if getattr(token, "normalized", False) and str(token) in markers.texts]
    return bool(texts) and json.loads(backend.to_str())["normalizer"] != {"type": "Sequence", "normalizers": []}


def _moved(position: int, cuts: Sequence[int]) -> int:
    """A position in a text without guards, as one in the text with them."""
    return position + sum(cut < position for cut in cuts) * len(GUARD)


def _in_word(text: str, start: int, end: int) -> bool:
    return (start > 0 and text[start - 1].isalnum()) or (end < len(text) and text[end].isalnum())
