"""Whether a completion may be bridged as it ends: not inside reasoning, and not cut off inside a tool call.

Nothing that the next turn starts with could close either. A stop that was sampled ends a call, whatever the call looks like. A
completion without one was cut off, or its engine left the stop out; then a call in it must be whole: behind the mark that opens
calls in this format stands its closing, at the very end, and the parse gives calls that are all sound. Mark and closing are
learned from two small renders, so that no backend has to know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ...errors import BridgeDeclined
from ...normal_form.ids import IdsView, common_prefix, last_of
from ...normal_form.tokenizer import control_ids, reasoning_ids
from ...probing.calls import QUESTION
from ...probing.text import Decoder
from ...types import ParsedResponse, Renderer

Parse = Callable[[list[int]], ParsedResponse]

_END_IDS = 16
"""How many ids at its end a prompt's opener may have."""
_TEXT, _NAME, _ARGUMENTS = "omega", "zulu", ('{"yankee": "xray"}', '{"whiskey": 1}')

_IDS = ("call00000", "functions.zulu:0")
"""The strictest formats take nine letters and digits (Mistral), or show the name in the id alone (Kimi)."""


class CallMarks:
    """What a format writes around calls, as texts.

    Attributes:
        opening: Its first text that a turn without calls doesn't have: a control token, or the text up to the name.
        closing: What stands behind the arguments up to the close of the turn, blanks stripped.
    """

    def __init__(self, opening: str, closing: str) -> None:
        self.opening, self.closing = opening, closing

    def begun_in(self, text: str) -> bool:
        """Whether a call was begun in a text, or may be about to be."""
        bare = text.strip()
        return self.opening in text or bool(bare and self.opening.startswith(bare))

    def closed_in(self, text: str) -> bool:
        """Whether a text ends with the closing."""
        return text.rstrip().endswith(self.closing)


class Unfinished:
    """Declines completions that end inside something, for one backend's renderer.

    Args:
        upstream: The backend's renderer.
        tokenizer: The one that it renders with.
        lock: Held while ``upstream`` works.
        stops: Ids at which sampling stops.
    """

    def __init__(self, upstream: Renderer, tokenizer: Any, lock: Any, stops: frozenset[int]) -> None:
        self._upstream, self._tokenizer, self._lock, self._stops = upstream, tokenizer, lock, stops

    def refuse(self, prompt: IdsView, sampled: list[int], parse: Parse) -> None:
        """Raises ``BridgeDeclined`` where a completion ends inside reasoning, or was cut off inside a tool call.

        Args:
            prompt: What it was sampled behind.
            sampled: The completion.
            parse: Parses it behind that prompt; asked only where the ids alone don't tell.
        """
        stopped = not self._stops.isdisjoint(sampled)
        inside = self._reasoning is None or _may_be_inside(self._reasoning, prompt, sampled, self._control)
        if self._reasoning == () and _may_be_inside(self._unshown_reasoning, prompt, sampled, self._control):
            # The format shows no reasoning, so no parse tells; the model may write its markers all the same.
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if stopped and not inside:
            return
        parsed = parse(sampled)
        if not parsed.reasoning_complete:
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if not stopped and self._inside_call(sampled, parsed):
            raise BridgeDeclined("the completion was cut off inside a tool call")

    def _inside_call(self, sampled: list[int], parsed: ParsedResponse) -> bool:
        if not all(call.sound for call in parsed.tool_calls):
            return True
        marks = self._marks
        if marks is None:
            return False
        try:
            text = self._decoder.text(sampled)
            if len(self._unshown_reasoning) == 2:
                text = text.rsplit(self._decoder.text(self._unshown_reasoning[1:]), 1)[-1]
        except Exception:  # an id that has no text
            return True
        if not marks.begun_in(text):
            return False
        if not marks.closed_in(text):
            return True
        if not parsed.tool_calls:  # a parser that was told of no tools may find none; a control token ends one all the same
            return sampled[-1] not in self._control
        return marks.opening in parsed.content

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self._tokenizer, self._control | self._stops)

    @cached_property
    def _control(self) -> frozenset[int]:
        return control_ids(self._tokenizer)

    @cached_property
    def _marks(self) -> CallMarks | None:
        """Learned when first needed; ``None`` for a format that can't write a call, or a tokenizer that can't decode."""
        for call_id in _IDS:
            try:
                with self._lock:
                    plain = self._turn({"content": _TEXT})
                    first, second = (self._turn({"content": "", "tool_calls": [_call(call_id, each)]}) for each in _ARGUMENTS)
            except Exception:  # a format without calls, or one that wants other ids
                continue
            return _learned(plain, first, second)
        return None

    def _turn(self, turn: Mapping[str, Any]) -> list[tuple[str, bool]]:
        """What the format writes behind a question, up to the first stop behind its text or call: texts, and which are control
        tokens."""
        ids = list(self._upstream.render_ids([dict(QUESTION), {"role": "assistant", **turn}]))
        atoms = self._decoder.atoms(ids)
        text = "".join(atom.text for atom in atoms)
        start = text.rfind(QUESTION["content"]) + len(QUESTION["content"])
        shown = max(text.rfind(word, start) for word in (_TEXT, _NAME))
        if shown < 0:
            raise ValueError("the turn doesn't show")
        stops = {self._decoder.text([stop]) for stop in self._stops}
        out = []
        for atom in atoms:
            if atom.end <= start:
                continue
            if atom.control and atom.text in stops and atom.start > shown:
                break
            out.append((atom.text[max(0, start - atom.start) :], atom.control))
        return out

    @cached_property
    def _reasoning(self) -> tuple[int, int] | tuple[()] | None:
        """The backend's ``reasoning_ids``, asked when needed: a backend may have to learn them."""
        with self._lock:
            found: tuple[int, int] | tuple[()] | None = getattr(self._upstream, "reasoning_ids", None)
        return found

    @cached_property
    def _unshown_reasoning(self) -> tuple[int, int] | tuple[()]:
        """The vocabulary's markers of reasoning, which it has for formats that show none too."""
        return reasoning_ids(self._tokenizer)


def _learned(plain: list[tuple[str, bool]], first: list[tuple[str, bool]], second: list[tuple[str, bool]]) -> CallMarks | None:
    texts = ["".join(text for text, _ in atoms) for atoms in (plain, first, second)]
    known = {text for text, control in plain if control}
    opening = None
    for text, control in first:
        if control and text not in known and text.strip():
            opening = text
            break
        if _NAME in text:
            break
    if opening is None:
        head = texts[1][: texts[1].index(_NAME)]
        opening = head[common_prefix(texts[0], head) :].strip()
    closing = texts[1][len(texts[1]) - common_prefix(reversed(texts[1]), reversed(texts[2])) :].strip()
    return CallMarks(opening, closing) if opening and closing else None


def _call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": _NAME, "arguments": arguments}}


def _may_be_inside(markers: tuple[int, int] | tuple[()], prompt: IdsView, sampled: list[int], control: frozenset[int]) -> bool:
    """Whether the last reasoning marker opens: cheap, and right but for markers in the text of a message. Of the prompt its end
    is searched, and where no control token stands there (it goes on with a begun thought), what comes before up to one."""
    if not markers:
        return False
    end = prompt[-_END_IDS:]
    last = last_of(markers, sampled)
    if last is None:
        last = last_of(markers, end)
    if last is None and control.isdisjoint(end):
        last = last_of(control.union(markers), prompt[:-_END_IDS])
    return last == markers[0]
