"""Whether a prompt ends inside reasoning: looked for in all of its ids, as a caller may begin a thought of any length.

Almost all markers start with a control id: then ids are searched from the end on, and only those around a marker are decoded,
whatever the prompt's length. Where a marker is ordinary text, all of the last turn is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .id_text import CONTROL, IdText
from .literals import core
from .turn_format import TurnFormat

_MORE = 16
"""How many more ids than a marker has letters are decoded: pieces of one letter, white space that isn't the marker's."""
_AT_ONCE = 2048
"""How many ids are searched at once, by the list's own search: a loop over a prompt costs more than all else of a parse."""


def ends_inside_reasoning(form: TurnFormat, ids: IdText, prompt: Sequence[int]) -> bool:
    """Whether a prompt ends inside reasoning, opened by the template or by a caller who wrote its beginning."""
    opening, closing = core(form.reasoning_open), core(form.reasoning_close)
    if not opening or not closing:
        return False
    turn = _last(ids, prompt, form.turn_opens)
    if not (CONTROL.match(opening) and CONTROL.match(closing)):
        return form.opened_by(ids.show(prompt[turn or 0 :]))
    at = _last(ids, prompt, opening, turn or 0)
    if at is None:
        return False
    closes = (_shown(ids, prompt, place, closing) for place in _from_the_end(prompt, ids.id_of(closing[0]), at + 1))
    if any(map(form.closes_reasoning, closes)):
        return False
    return turn is not None or not any(True for stop in form.stops for _ in _from_the_end(prompt, ids.id_of(stop), at))


def last_turn(form: TurnFormat, ids: IdText, prompt: Sequence[int]) -> Sequence[int]:
    """The ids of a prompt from what opens its last assistant's turn on; all of them where there is none."""
    return prompt[_last(ids, prompt, form.turn_opens) or 0 :]


def _last(ids: IdText, prompt: Sequence[int], literal: str, low: int = 0) -> int | None:
    """Where a literal that starts with a control id stands last in a prompt, from ``low`` on."""
    places = _from_the_end(prompt, ids.id_of(literal[0]) if literal else None, low)
    return next((at for at in places if _shown(ids, prompt, at, literal).startswith(literal)), None)


def _shown(ids: IdText, prompt: Sequence[int], at: int, literal: str) -> str:
    return ids.show(prompt[at : at + len(literal) + _MORE])


def _from_the_end(prompt: Sequence[int], wanted: int | None, low: int) -> Iterator[int]:
    """Where an id stands in a prompt, the last place first, down to ``low``."""
    end = len(prompt)
    while wanted is not None and end > low:
        start = max(low, end - _AT_ONCE)
        some = list(prompt[start:end])[::-1]
        at = -1
        for _ in range(some.count(wanted)):
            at = some.index(wanted, at + 1)
            yield end - 1 - at
        end = start
