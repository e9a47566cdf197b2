"""What a format writes around reasoning, content and tool calls, learned from a few small renders of one renderer.

Made-up assistant turns are rendered, whose parts are words that nothing else contains (``calls.py``); what stands around the
words is the format. Qwen3, for instance, writes ``alpha`` as reasoning, ``omega`` as content and a call of ``zulu`` as::

    <|im_start|>assistant\n<think>\nalpha\n</think>\n\nomega<|im_end|>
    <|im_start|>assistant\n<tool_call>\n{"name": "zulu", "arguments": {"yankee": "xray"}}\n</tool_call><|im_end|>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ..normal_form.ids import common_prefix
from ..normal_form.tokenizer import reasoning_ids
from .calls import ANSWER, KEY, NAME, OTHER_ARGUMENTS, QUESTION, REASONING, VALUE, call_ids, tool_call
from .text import Atom, Decoder

_WORDS = (ANSWER, REASONING, NAME, KEY, VALUE)


class Format:
    """The delimiters of one renderer's format. Each is learned when it is first asked for, and nothing raises: what a renderer
    refuses to show is empty.

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
        self._known_reasoning = known_reasoning
        self.stops = stops

    # Reasoning

    @cached_property
    def reasoning_ids(self) -> tuple[int, int] | tuple[()] | None:
        """``(<think>, </think>)``; ``()`` where the format shows no reasoning; ``None`` where a delimiter isn't one
        id, or nothing can be learned: then only a parse tells whether a completion ends inside reasoning."""
        known = self._known_reasoning()
        if known is not None:
            return known
        if not self._text_turn:
            return None
        return self._pair_around(REASONING) if any(REASONING in atom.text for atom in self._text_turn) else ()

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
        thought = next((index for index, atom in enumerate(atoms) if REASONING in atom.text), len(atoms))
        return any(atom.control and (atom.text,) == closing for atom in atoms[thought:])

    def _pair_around(self, word: str) -> tuple[int, int] | None:
        """The special tokens directly around a word, where the turn has each once: harmony's stand around each message."""
        atoms = self._text_turn
        at = next((index for index, atom in enumerate(atoms) if word in atom.text), 0)
        around = [atoms[index] for index in (at - 1, at + 1) if 0 <= index < len(atoms)]
        by_text = {self.decoder.text([token]): token for token in self.decoder.control}
        if len(around) < 2 or any(not atom.control or atom.text not in by_text for atom in around):
            return None
        if any(sum(other.control and other.text == atom.text for other in atoms) != 1 for atom in around):
            return None
        opening, closing = (by_text[atom.text] for atom in around)
        return None if opening == closing or closing in self.stops else (opening, closing)

    # Delimiters of a turn of text and of a turn of calls

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
        turn = self._turn({"content": ANSWER})
        if not turn:
            return None
        plain = _before_close(turn, ANSWER, self._stop_texts)
        first = _before_close(self._call_turn(reasoning=False), NAME, self._stop_texts)
        second = _before_close(self._call_turn(OTHER_ARGUMENTS, reasoning=False), NAME, self._stop_texts)
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
    def _stop_texts(self) -> frozenset[str]:
        return frozenset(self.decoder.text([stop]) for stop in self.stops)

    # Rendered turns

    @cached_property
    def _text_turn(self) -> list[Atom]:
        return self._with_reasoning({"content": ANSWER})

    def _call_turn(self, arguments: str | None = None, *, reasoning: bool = True) -> list[Atom]:
        """A turn of one call; formats differ in the ids that they take."""
        given = {} if arguments is None else {"arguments": arguments}
        for call_id in call_ids():
            turn = {"content": "", "tool_calls": [tool_call(call_id=call_id, **given)]}
            shown = self._with_reasoning(turn) if reasoning else self._turn(turn)
            if any(NAME in atom.text for atom in shown):
                return shown
        return []

    def _with_reasoning(self, turn: dict[str, Any]) -> list[Atom]:
        """The turn with reasoning, under the key that the format shows."""
        shown: list[Atom] = []
        for key in ("reasoning_content", "thinking"):
            shown = self._turn({key: REASONING, **turn}) or shown
            if any(REASONING in atom.text for atom in shown):
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


def _until(atoms: Sequence[Atom], word: str) -> list[Atom]:
    """The atoms in front of the one that has the word; none where no atom has it."""
    at = next((index for index, atom in enumerate(atoms) if word in atom.text), None)
    return [] if at is None else [*atoms[:at], Atom(atoms[at].text.partition(word)[0], False, atoms[at].start)]


def _before_close(atoms: Sequence[Atom], word: str, stops: frozenset[str]) -> list[Atom]:
    """The atoms of a turn up to the first stop behind a word; none where the word doesn't show."""
    shown = next((index for index, atom in enumerate(atoms) if word in atom.text), None)
    if shown is None:
        return []
    end = next((i for i, atom in enumerate(atoms) if atom.control and atom.text in stops and i > shown), len(atoms))
    return list(atoms[:end])


def _own_words(atoms: Sequence[Atom]) -> Iterator[str]:
    """The ordinary words of a rendered turn that are the format's own."""
    for atom in atoms:
        text = "" if atom.control else atom.text
        for word in _WORDS:
            text = text.replace(word, "\0")
        yield from (part for part in text.split("\0") if part.strip())
