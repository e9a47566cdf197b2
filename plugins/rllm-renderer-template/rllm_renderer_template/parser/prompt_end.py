"""Whether a prompt ends inside reasoning: looked for in all of its ids, as a caller may begin a thought of any length.

Only the last assistant's turn is decoded: what opens it starts with a control id, which is searched from the end on.
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
    opening = core(form.reasoning_open)
    start = _last(ids, prompt, form.turn_opens)
    if start is None and CONTROL.match(opening) and (start := _last(ids, prompt, opening)) is None:
        return False
    return form.opened_by(ids.show(prompt[start or 0 :]))


def last_turn(form: TurnFormat, ids: IdText, prompt: Sequence[int]) -> Sequence[int]:
    """The ids of a prompt from what opens its last assistant's turn on; all of them where there is none."""
    return prompt[_last(ids, prompt, form.turn_opens) or 0 :]


def _last(ids: IdText, prompt: Sequence[int], literal: str) -> int | None:
    """Where a literal that starts with a control id stands last in a prompt."""
    for at in _from_the_end(prompt, ids.id_of(literal[0]) if literal else None):
        if ids.show(prompt[at : at + len(literal) + _MORE]).startswith(literal):
            return at
    return None


def _from_the_end(prompt: Sequence[int], wanted: int | None) -> Iterator[int]:
    """Where an id stands in a prompt, the last place first."""
    end = len(prompt)
    while wanted is not None and end > 0:
        start = max(0, end - _AT_ONCE)
        backwards, at = list(prompt[start:end])[::-1], -1
        for _ in range(backwards.count(wanted)):
            at = backwards.index(wanted, at + 1)
            yield end - 1 - at
        end = start
