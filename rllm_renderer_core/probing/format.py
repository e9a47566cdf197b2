"""What a format writes around reasoning, content and tool calls, learned from small renders of words that are no part of it.

Qwen3, for instance, writes ``alpha`` as reasoning, ``omega`` as content and a call of ``zulu`` as::

    <|im_start|>assistant\n<think>\nalpha\n</think>\n\nomega<|im_end|>
    <|im_start|>assistant\n<tool_call>\n{"name": "zulu", "arguments": {"yankee": "xray"}}\n</tool_call><|im_end|>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ..normal_form.ids import common_prefix
from ..normal_form.tokenizer import reasoning_ids
from .calls import ANSWER, ARGUMENTS, KEY, NAME, OTHER_ARGUMENTS, QUESTION, REASONING, VALUE, call_ids, tool_call
from .text import Atom, Decoder

_WORDS = (ANSWER, REASONING, NAME, KEY, VALUE)


class Format:
    """The delimiters of one renderer's format, learned when first asked for; what a renderer refuses to show is empty.

    Args:
        render_ids: Messages in normal form to the ids of their prompt, by the backend's own renderer, with its lock held.
        decoder: Decodes them.
        tokenizer: For the hint at reasoning's delimiters that a vocabulary gives.
        stops: Ids at which sampling stops.
        known_reasoning: The delimiters of reasoning where the backend knows them; see ``RendererTraits.reasoning_ids``.
    """

    def __init__(
        self,
        render_ids: Callable[[list[dict[str, Any]]], Sequence[int]],
        decoder: Decoder,
        tokenizer: Any,
        stops: frozenset[int],
        known_reasoning: Callable[[], tuple[int, int] | tuple[()] | None],
    ) -> None:
        self._render_ids, self.decoder, self._tokenizer = render_ids, decoder, tokenizer
        self._known_reasoning, self.stops = known_reasoning, stops

    @cached_property
    def reasoning_ids(self) -> tuple[int, int] | tuple[()] | None:
        """``(<think>, </think>)``; ``()`` where the format shows no reasoning; ``None`` where a delimiter isn't one
        id, or nothing can be learned: then only a parse tells whether a completion ends inside reasoning."""
        known = self._known_reasoning()
        if known is not None:
            return known
        if not self._text_turn:
            return None
        return () if _place_of(REASONING, self._text_turn) is None else self._pair_around_reasoning()

    @cached_property
    def any_reasoning_ids(self) -> tuple[int, int] | tuple[()]:
        """The same, or those that the vocabulary has for a model that may reason though its format shows none."""
        return self.reasoning_ids or reasoning_ids(self._tokenizer)

    @cached_property
    def reasoning_texts(self) -> tuple[str, ...]:
        """``any_reasoning_ids`` as text: ``("<think>", "</think>")``."""
        return tuple(self.decoder.text([token]) for token in self.any_reasoning_ids)

    @cached_property
    def closes_before_calls(self) -> bool:
        """Whether a turn with reasoning and a call closes the reasoning first; where not, or none shows, a call may end it."""
        closing, atoms = self.reasoning_texts[1:], _until(self._call_turn(), NAME)
        thought = _place_of(REASONING, atoms)
        return thought is not None and any(atom.control and (atom.text,) == closing for atom in atoms[thought:])

    def _pair_around_reasoning(self) -> tuple[int, int] | None:
        """The special tokens directly around it, where the turn has each once: harmony's stand around each message."""
        atoms = self._text_turn
        at = _place_of(REASONING, atoms) or 0
        around = [atoms[index] for index in (at - 1, at + 1) if 0 <= index < len(atoms)]
        by_text = {self.decoder.text([token]): token for token in self.decoder.control}
        shown = [atom.text for atom in atoms if atom.control]
        if len(around) < 2 or not all(atom.control and atom.text in by_text and shown.count(atom.text) == 1 for atom in around):
            return None
        opening, closing = (by_text[atom.text] for atom in around)
        return None if opening == closing or closing in self.stops else (opening, closing)

    @cached_property
    def text_words(self) -> frozenset[str]:
        """Ordinary words that the format writes in a turn of text, and in front of reasoning: ``{"assistant\\n"}``."""
        return frozenset(_own_words(self._text_turn)) | frozenset(_own_words(_until(self._call_turn(), REASONING)))

    @cached_property
    def call_words(self) -> frozenset[str]:
        """Ordinary words that the format writes in a turn with a call: ``{'{"name": "', '", "arguments": ', ...}``."""
        return frozenset(_own_words(self._call_turn()))

    @cached_property
    def special_tokens(self) -> frozenset[str]:
        """Special tokens around messages, reasoning and calls, blanks stripped: none of them is ever part of a text."""
        shown = (*self._text_turn, *self._call_turn())
        return frozenset(atom.text.strip() for atom in shown if atom.control and atom.text.strip())

    @cached_property
    def call_delimiters(self) -> tuple[str, str] | None:
        """What opens a call and what closes it, as ``("<tool_call>", "</tool_call>")``: the first special token that a turn of
        text doesn't have, or the text up to the name; and what stands behind the arguments up to the turn's close, blanks
        stripped. ``None`` for a format that can't write a call."""
        plain = self._before_close(ANSWER, self._turn({"content": ANSWER}))
        turns = (self._call_turn(arguments, reasoning=False) for arguments in (ARGUMENTS, OTHER_ARGUMENTS))
        first, second = (self._before_close(NAME, turn) for turn in turns)
        if not (plain and first and second):
            return None
        texts = ["".join(atom.text for atom in atoms) for atoms in (plain, first, second)]
        known = {atom.text for atom in plain if atom.control}
        special = (atom.text for atom in _until(first, NAME) if atom.control and atom.text.strip())
        opening = next((text for text in special if text not in known), "")
        if not opening:
            head = texts[1][: texts[1].index(NAME)]
            opening = head[common_prefix(texts[0], head) :].strip()
        closing = texts[1][len(texts[1]) - common_prefix(reversed(texts[1]), reversed(texts[2])) :].strip()
        return (opening, closing) if opening and closing else None

    @cached_property
    def stop_texts(self) -> frozenset[str]:
        return frozenset(self.decoder.text([stop]) for stop in self.stops)

    def _before_close(self, word: str, atoms: list[Atom]) -> list[Atom]:
        """The atoms of a turn up to the first stop behind a word; none where the word doesn't show."""
        shown = _place_of(word, atoms)
        if shown is None:
            return []
        stops = (at for at, atom in enumerate(atoms) if at > shown and atom.control and atom.text in self.stop_texts)
        return atoms[: next(stops, len(atoms))]

    # Rendered turns

    @cached_property
    def _text_turn(self) -> list[Atom]:
        return self._with_reasoning({"content": ANSWER})

    def _call_turn(self, arguments: str = ARGUMENTS, *, reasoning: bool = True) -> list[Atom]:
        """A turn of one call; formats differ in the ids that they take."""
        for call_id in call_ids():
            turn = {"content": "", "tool_calls": [tool_call(NAME, arguments, call_id)]}
            shown = self._with_reasoning(turn) if reasoning else self._turn(turn)
            if _place_of(NAME, shown) is not None:
                return shown
        return []

    def _with_reasoning(self, turn: dict[str, Any]) -> list[Atom]:
        """The turn with reasoning, under the key that the format shows."""
        shown: list[Atom] = []
        for key in ("reasoning_content", "thinking"):
            shown = self._turn({key: REASONING, **turn}) or shown
            if _place_of(REASONING, shown) is not None:
                break
        return shown

    def _turn(self, turn: dict[str, Any]) -> list[Atom]:
        """What the format writes behind a question for an assistant's turn; empty where it refuses that."""
        try:
            atoms = self.decoder.atoms(list(self._render_ids([dict(QUESTION), {"role": "assistant", **turn}])))
        except Exception:  # a format without reasoning or calls, or one that wants other ids
            return []
        start = "".join(atom.text for atom in atoms).rfind(QUESTION["content"]) + len(QUESTION["content"])
        return [Atom(atom.text[max(0, start - atom.start) :], atom.control, atom.start) for atom in atoms if atom.end > start]


def _place_of(word: str, atoms: Sequence[Atom]) -> int | None:
    """The index of the first atom that has the word."""
    return next((index for index, atom in enumerate(atoms) if word in atom.text), None)


def _until(atoms: Sequence[Atom], word: str) -> list[Atom]:
    """The atoms in front of the one that has the word; none where no atom has it."""
    at = _place_of(word, atoms)
    return [] if at is None else [*atoms[:at], Atom(atoms[at].text.partition(word)[0], False, atoms[at].start)]


def _own_words(atoms: Sequence[Atom]) -> Iterator[str]:
    """The ordinary words of a rendered turn that are the format's own."""
    for atom in atoms:
        text = "" if atom.control else atom.text
        for word in _WORDS:
            text = text.replace(word, "\0")
        yield from (part for part in text.split("\0") if part.strip())
