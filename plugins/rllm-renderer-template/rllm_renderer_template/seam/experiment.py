"""Experiments about the boundary between turns: renders of probe conversations, compared id for id.

With a renderer that writes ChatML, and ``ping0`` for the new message::

    ... <|im_start|>assistant\n omega <|im_end|>\n<|im_start|>user\n ping0    <|im_end|>\n<|im_start|>assistant\n
    ... <|im_start|>assistant\n xray  <|im_end|>\n<|im_start|>user\n ping0    <|im_end|>\n<|im_start|>assistant\n
    ... <|im_start|>assistant\n omega <|im_end|>\n<|im_start|>user\n yankeeping0 <|im_end|>\n<|im_start|>assistant\n
    |------------ head ---------------|------------ gap -------------|--------------- tail -------------------|

The first two end alike from the end of the answer on; the first and the third start alike up to the new message. ``<|im_end|>``
is the one token of the gap at which sampling stops: it closes the turn, and what stands behind it continues the conversation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from rllm_renderer_core.errors import BridgeDeclined, RendererError
from rllm_renderer_core.normal_form.ids import common_prefix

from ..reasons import reason_of
from .probe_turns import ANSWERS, STAND_IN, ProbeTurn, altered

Tools = list[dict[str, Any]] | None
Render = Callable[[list[dict[str, Any]], Tools], Sequence[int]]
"""Messages and tools, both in normal form, to prompt ids that end with the generation prompt."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Gap:
    """The ids of a render, cut where the assistant's text stops mattering and where the new messages start to.

    ``shows_from`` counts from the start of the gap.
    """

    head: tuple[int, ...]  # ... <|im_start|>assistant\nomega
    gap: tuple[int, ...]  # <|im_end|>\n<|im_start|>user\n
    tail: tuple[int, ...]  # ping0<|im_end|>\n<|im_start|>assistant\n
    shows_from: int  # 5: the first position at which any new message shows alone


@dataclass(frozen=True)
class TurnBoundary:
    """The token that closes an assistant's turn, and what stands around it.

    ``probe`` is the turn that it was learned from, in a conversation that the template accepts.
    ``calls_alone`` where the format shows text beside calls behind their results, as Gemma 4's template does: then the tail is
    right for a turn of calls alone.
    """

    probe: ProbeTurn
    head: tuple[int, ...]  # ... <|im_start|>assistant\nomega<|im_end|>
    before_close: tuple[int, ...]  # nothing here; \n</tool_call> in a turn of calls
    close: int  # <|im_end|>
    tail: tuple[int, ...]  # \n<|im_start|>user\nping0<|im_end|>\n<|im_start|>assistant\n
    calls_alone: bool = False


class Experiments:
    """What renders of probe conversations tell about the end of a turn. Every method declines where they tell nothing certain;
    of their results ``size`` are remembered."""

    def __init__(self, render: Render, stops: frozenset[int], special: frozenset[int], size: int) -> None:
        self._render_upstream, self._stops, self._special = render, stops, special
        self._known: OrderedDict[Any, Any] = OrderedDict()
        self._size = size

    def remembered(self, key: Any, experiment: Callable[[], Result]) -> Result:
        """What an experiment comes to, a decline too, made once a key: the key has all that it depends on."""
        if key not in self._known:
            try:
                self._known[key] = experiment()
            except BridgeDeclined as declined:
                self._known[key] = declined
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        known: Result | BridgeDeclined = self._known[key]
        if isinstance(known, BridgeDeclined):
            raise type(known)(known.reason, fix=known.fix)
        return known

    def settle(self, turns: Sequence[ProbeTurn], tools: Tools, ending: int | None) -> TurnBoundary:
        """The boundary by the first hypothesis, if all others, and the turn with other optional parts, show the same tail."""
        return self._in_accepted(turns, lambda accepted: self._settle(accepted, tools, ending))

    def _in_accepted(self, turns: Sequence[ProbeTurn], experiment: Callable[[Sequence[ProbeTurn]], Result]) -> Result:
        """The experiment in the first conversation that the template accepts; all hypotheses are put in the same one."""
        refusals = []
        for variant in zip(*(turn.variants() for turn in turns), strict=True):
            try:
                return experiment(variant)
            except Refused as error:
                refusals.append(error)
        raise refusals[0]

    def _settle(self, turns: Sequence[ProbeTurn], tools: Tools, ending: int | None) -> TurnBoundary:
        boundary = self.boundary(turns[0], tools, ending)
        for turn in turns[1:]:
            if turn != turns[0] and not self._shows(turn, tools, boundary.tail):
                raise NotSettled("what isn't known about the sampled calls changes the new messages")
        for turn in turns[0].with_optional_parts():
            if self._shows(turn, tools, boundary.tail):
                continue
            if turns[0].text or not turn.text:
                raise BridgeDeclined("how the new messages are rendered depends on more of the history than its last close")
            boundary = replace(boundary, calls_alone=True)
        return boundary

    def _shows(self, turn: ProbeTurn, tools: Tools, tail: tuple[int, ...]) -> bool:
        """Whether this turn, followed by the new messages, ends with the same tail, or isn't a turn of this format at all."""
        try:
            ids = self.render(turn.history() + turn.new, tools)
        except BridgeDeclined:
            return True
        return tuple(ids[len(ids) - len(tail) :]) == tail and len(ids) > len(tail)

    def boundary(self, turn: ProbeTurn, tools: Tools, ending: int | None) -> TurnBoundary:
        """The close of a turn, found in the gap between it and the new messages. ``ending`` is a control token that the
        completion ends with, which may close the turn too."""
        gap = self.gap(turn, tools)
        closes = self._stops | self.history_close(turn.new, tools) | ({ending} if ending is not None else frozenset())
        at = [index for index, token in enumerate(gap.gap) if token in closes]
        whole = gap.head + gap.gap + gap.tail
        # A close that ends a message of the turn, and right behind it the stop that ends the turn (Inkling).
        if len(at) > 1 and gap.gap[at[0]] not in (*self._stops, ending) and gap.gap[at[0] + 1] in self._stops:
            at = at[1:]
        # Of two closes the first is the turn's own if sampling stops there: the template itself puts the other behind it.
        if len(at) > 1 and gap.gap[at[0]] not in self._stops:
            raise BridgeDeclined("two close tokens lie between the assistant's turn and the new messages")
        if at:
            if gap.shows_from <= at[0]:
                raise BridgeDeclined("a new message changes what comes before the close of the assistant's turn")
            before, (close, *behind) = gap.gap[: at[0]], gap.gap[at[0] :]
            tail = (*behind, *gap.tail)
        elif turn.calls:
            # Some formats don't close a turn of calls: then the results must continue as they do after text.
            plain = self.boundary(replace(turn, calls=(), text=""), tools, ending)
            before, close, tail = (), plain.close, plain.tail
            if not tail or (gap.gap + gap.tail)[-len(tail) :] != tail:
                raise BridgeDeclined("there is no close token between the calls of the assistant's turn and the new messages")
        else:
            raise BridgeDeclined("there is no close token between the assistant's turn and the new messages")
        return TurnBoundary(turn, whole[: len(whole) - len(tail)], before, close, tail)

    def history_close(self, new: list[dict[str, Any]], tools: Tools) -> frozenset[int]:
        """The close that history uses where it isn't a stop id (``<|end|>`` in harmony; a role tag in GLM)."""
        closes: set[int] = set()
        for role in ("user", new[0]["role"]):
            turn = ProbeTurn([{"role": role, "content": STAND_IN}])
            closes.update(self.remembered(("history close", role, repr(tools)), partial(self._first_of_gap, turn, tools)))
        return self._special & closes

    def _first_of_gap(self, turn: ProbeTurn, tools: Tools) -> tuple[int, ...]:
        try:
            return self._in_accepted([turn], lambda turns: self.gap(turns[0], tools)).gap[:1]
        except BridgeDeclined:
            return ()

    def gap(self, turn: ProbeTurn, tools: Tools) -> Gap:
        """The gap between an assistant's turn and the new messages; see the top of this module."""
        new = turn.new
        one, other = (self.render(turn.history(answer) + new, tools) for answer in ANSWERS)
        suffix = common_prefix(reversed(one), reversed(other))
        if suffix >= min(len(one), len(other)):
            raise BridgeDeclined("the renderer drops the assistant's turn")
        start = len(one) - suffix
        end = common_prefix(one, self.render(turn.history() + [altered(message) for message in new], tools))
        if end >= len(one):
            raise BridgeDeclined("the renderer drops the new messages")
        if end < start:
            raise BridgeDeclined("the new messages change how the turns before them are rendered")
        shows_from = end - start
        for index in range(len(new) if len(new) > 1 else 0):
            alone = [altered(message) if at == index else message for at, message in enumerate(new)]
            shown = self.render(turn.history() + alone, tools)
            if shown == one:
                raise BridgeDeclined(f"the renderer drops new message {index} ({new[index]['role']})")
            shows_from = min(shows_from, common_prefix(one, shown) - start)
        return Gap(tuple(one[:start]), tuple(one[start:end]), tuple(one[end:]), shows_from)

    def render(self, messages: list[dict[str, Any]], tools: Tools) -> list[int]:
        """The ids of a probe conversation, or ``Refused``."""
        try:
            return list(self._render_upstream([dict(message) for message in messages], tools))
        except BridgeDeclined:
            raise
        except Exception as error:
            what = "" if isinstance(error, RendererError) else " the new messages"
            raise Refused(f"the renderer refuses{what}: {reason_of(error)}") from error


class Refused(BridgeDeclined):
    """The renderer doesn't render this probe conversation."""


class NotSettled(BridgeDeclined):
    """Hypotheses about the sampled calls give different tails."""
