"""The seam: a bridge for any renderer, learned by experiment instead of known by format.

A bridge has to append to P + C what the model's format puts between the end of an assistant turn and the next opener. This
module needs only a function that renders messages to prompt ids. It renders a made-up history with the new messages behind
it, twice, with different text in the assistant's turn: the longest common suffix starts where that text stops mattering. It
renders once more with the new messages altered: the common prefix ends where they start mattering. In that gap lies the
close of the assistant's turn. What follows the close is what follows P + C::

    system s · user ping · assistant alpha1 <close> \\n <opener of user> new message <end> <opener of assistant>
                                           |---------- gap ------------|
                                                    |--------- tail, appended to P + C ------------------------|

Where the gap has no close or two, where a message shows before the close or not at all, or where facts about the sampled calls
that aren't known would change the tail, the bridge declines. Nothing is decoded or encoded again; ids alone are compared.

The gap depends on the shape of the new messages (roles, tools, which contents are blank), not on what they say. So it is
learned once a shape, on stand-in contents; a call then costs one render of the made-up history with the real messages, whose
head must equal the learned one; where it doesn't, the experiment is repeated on the real messages.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import BridgeDeclined, RendererError
from .turns import CALL, MARKERS, STAND_IN, MadeUpTurn, altered, possible_calls, shape_of
from ..contract.pairing import Call, calls_of, certain_pairing, results_in
from ..types import Message, RenderedTokens

Render = Callable[[list[dict[str, Any]], "list[dict[str, Any]] | None"], Sequence[int]]
"""Messages and tools, both in normal form, to prompt ids that end with the opener of the next assistant turn."""


@dataclass(frozen=True)
class _Gap:
    """What an experiment found: ``head`` ends where the assistant's text stops mattering, ``gap`` where N starts to.

    ``shows_from`` is the first position, counted from the start of the gap, at which any message of N shows alone.
    """

    head: tuple[int, ...]
    gap: tuple[int, ...]
    tail: tuple[int, ...]
    shows_from: int


@dataclass(frozen=True)
class _Seam:
    """A close and what follows it: ``head`` ends with the close, ``before_close`` lies between the assistant's text and it.

    ``calls_alone`` where the format shows text beside calls behind their results, as Gemma 4's template does: then the tail is
    right for a turn of calls alone.
    """

    head: tuple[int, ...]
    before_close: tuple[int, ...]
    close: int
    tail: tuple[int, ...]
    calls_alone: bool = False


class SeamBridge:
    """Bridges turns for a renderer that can only render.

    Args:
        render: Messages and tools (normal form) to prompt ids, with the opener of the next assistant turn at the end. What it
            raises is a decline.
        stop_ids: The ids at which sampling stops.
        special_ids: Ids of control tokens, which ordinary text doesn't become.
        parse_calls: Sampled ids to the names and ids of the calls in them; asked only where the format shows which result
            answers which call and ``previous_message`` isn't given.
        named_results: Whether results reach ``render`` with the names of their calls (the core's wrapper fills them in unless
            the renderer says ``wants_result_names = False``).
        cache_size: How many shapes are remembered.
    """

    def __init__(
        self,
        render: Render,
        stop_ids: Iterable[int],
        special_ids: Iterable[int],
        parse_calls: Callable[[Sequence[int]], Sequence[Call]] | None = None,
        *,
        named_results: bool = True,
        cache_size: int = 512,
    ) -> None:
        self._render_upstream = render
        self._stops = frozenset(stop_ids)
        self._special = frozenset(special_ids) | self._stops
        self._parse_calls = parse_calls
        self._named_results = named_results
        self._cache: OrderedDict[Any, Any] = OrderedDict()
        self._cache_size = cache_size

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens:
        """P + C, the close where none was sampled, and the tail. Arguments as in ``Renderer``, in normal form.

        Raises:
            BridgeDeclined: With the reason, where the tail can't be proven.
        """
        prompt, sampled = previous_prompt_ids, list(previous_completion_ids)
        new = [dict(message) for message in new_messages]
        declared = None if not tools else list(tools)
        if not prompt or not new:
            raise BridgeDeclined("the previous prompt is empty" if not prompt else "there is no new message")
        if any(not isinstance(message["content"], str) for message in new):
            raise BridgeDeclined("the new messages carry media, which can't be bridged by experiment")
        if any(message["role"] == "assistant" for message in new):
            raise BridgeDeclined("an assistant message is among the new ones: its tokens weren't sampled here")
        ending = sampled[-1] if sampled and sampled[-1] in self._special else None
        seam = self._find(new, declared, sampled, previous_message, ending)
        if seam.calls_alone and (previous_message is None or previous_message["content"].strip()):
            raise BridgeDeclined(
                "the format moves text beside calls behind their results, and the completion may have such text",
                fix="pass previous_message, if its content is empty",
            )
        delta = self._continue(sampled, seam, results=bool(results_in(new)))
        return RenderedTokens([*prompt, *sampled, *delta])

    def turn_ends(self) -> list[int]:
        """Stop ids, with the close that history shows where the tokenizer's own stops don't have it.

        Formats without a close end a turn by the next role's tag (GLM's ``<|user|>`` and ``<|observation|>``). A close that
        history also shows inside a turn (harmony's ``<|end|>``, behind each of a turn's messages) stops nothing.
        """
        tags = self._history_close([{"role": "user"}], None) | self._history_close([{"role": "tool"}], None)
        bare, *fuller = (self._counted(turn) for turn in (MadeUpTurn([], CALL), *MadeUpTurn([], CALL).trimmings()))
        return sorted(self._stops | {tag for tag in tags if all(ids.count(tag) <= bare.count(tag) for ids in fuller)})

    def _counted(self, turn: MadeUpTurn) -> list[int]:
        try:
            return self._render(turn.history(), None)
        except BridgeDeclined:
            return []

    # From the seam to the delta

    def _continue(self, sampled: list[int], seam: _Seam, *, results: bool) -> list[int]:
        """The ids to append to P + C, given what C ends with."""
        at = next((index for index, token in enumerate(sampled) if token in self._stops), None)
        if at is None and sampled and sampled[-1] == seam.close:
            at = len(sampled) - 1
        if at is None:
            if sampled and sampled[-1] in self._special:
                raise BridgeDeclined(f"the completion ends in the control token {sampled[-1]}, which closes nothing here")
            before = list(seam.before_close)
            if results and before and sampled[-len(before) :] != before:
                raise BridgeDeclined("the completion was cut off before the end of its tool calls, and results follow")
            return [*(() if results else before), seam.close, *seam.tail]
        if sampled[at] != seam.close and (seam.close in self._stops or not self._closes_everywhere(seam.close)):
            raise BridgeDeclined(f"the sampled stop {sampled[at]} contradicts the new messages, which follow {seam.close}")
        extra = sampled[at + 1 :]
        if any(token in self._special for token in extra) or list(seam.tail[: len(extra)]) != extra:
            raise BridgeDeclined("ids follow the stop of the completion that aren't how the next turn begins")
        return list(seam.tail[len(extra) :])

    def _closes_everywhere(self, close: int) -> bool:
        """Whether history shows this close whatever follows: not so a tag of the new messages' role (GLM's ``<|system|>``,
        which stops nothing), which would be lost behind another stop."""
        return close in self._history_close([{"role": "user"}], None)

    # From the shape to the seam

    def _find(
        self,
        new: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        sampled: list[int],
        previous: Message | None,
        ending: int | None,
    ) -> _Seam:
        if not results_in(new):
            return self._applied([MadeUpTurn(new)], tools, ending)
        try:
            return self._applied(possible_calls(new, self._named_results, keep=False), tools, ending)
        except _NotSettled:
            pass  # names, ids or the order of the calls show in the tail: they must be known
        results = [new[index] for index in results_in(new)]
        if previous is not None:
            calls: Sequence[Call] = calls_of(previous)
        else:
            calls = self._parse_calls(sampled) if self._parse_calls is not None else ()
        pairing = certain_pairing(calls, results)
        try:
            known = possible_calls(new, self._named_results, keep=True)
            return self._applied([MadeUpTurn(new, tuple(pairing))] if pairing else known, tools, ending)
        except _NotSettled:
            raise BridgeDeclined(
                f"the format shows which call a result answers, and {len(results)} result(s) can't be paired for certain "
                f"with the {len(calls)} call(s) of the completion",
                fix="pass previous_message (Rollout does), and results with the ids of their calls",
            ) from None

    def _applied(self, turns: Sequence[MadeUpTurn], tools: list[dict[str, Any]] | None, ending: int | None) -> _Seam:
        """The learned seam with the tail of the real messages."""
        seam = self._learned(turns, tools, ending)
        ids = self._render(turns[0].history() + turns[0].new, tools)
        if tuple(ids[: len(seam.head)]) != seam.head:
            return self._settle(turns, tools, ending)
        return replace(seam, tail=tuple(ids[len(seam.head) :]))

    def _learned(self, turns: Sequence[MadeUpTurn], tools: list[dict[str, Any]] | None, ending: int | None) -> _Seam:
        ending = None if ending in self._stops else ending
        key = (shape_of(turns[0].new), json.dumps(tools), turns[0].calls, ending)
        known = self._cache.get(key)
        if known is None:
            try:
                known = self._settle([turn.with_stand_ins() for turn in turns], tools, ending)
            except BridgeDeclined as declined:
                known = declined
            self._remember(key, known)
        else:
            self._cache.move_to_end(key)
        if isinstance(known, BridgeDeclined):
            raise type(known)(known.reason)
        assert isinstance(known, _Seam)
        return known

    def _remember(self, key: Any, value: Any) -> None:
        self._cache[key] = value
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)

    def _settle(self, turns: Sequence[MadeUpTurn], tools: list[dict[str, Any]] | None, ending: int | None) -> _Seam:
        """The seam of the first hypothesis, if all others, and the turn with other trimmings, show the same tail."""
        seam = self._seam(turns[0], tools, ending)
        for turn in turns[1:]:
            if turn != turns[0] and not self._shows(turn, tools, seam):
                raise _NotSettled
        for turn in turns[0].trimmings():
            if self._shows(turn, tools, seam):
                continue
            if not turn.text:
                raise BridgeDeclined("how the new messages are rendered depends on more of the history than its last close")
            seam = replace(seam, calls_alone=True)
        return seam

    def _shows(self, turn: MadeUpTurn, tools: list[dict[str, Any]] | None, seam: _Seam) -> bool:
        """Whether this turn, followed by the new messages, ends with the same tail, or isn't a turn of this format at all."""
        try:
            ids = self._render(turn.history() + turn.new, tools)
        except BridgeDeclined:
            return True
        return tuple(ids[len(ids) - len(seam.tail) :]) == seam.tail and len(ids) > len(seam.tail)

    def _seam(self, turn: MadeUpTurn, tools: list[dict[str, Any]] | None, ending: int | None) -> _Seam:
        gap = self._experiment(turn, tools)
        closes = self._stops | self._history_close(turn.new, tools) | ({ending} if ending is not None else frozenset())
        at = [index for index, token in enumerate(gap.gap) if token in closes]
        whole = gap.head + gap.gap + gap.tail
        if len(at) > 1:
            raise BridgeDeclined("two close tokens lie between the assistant's turn and the new messages")
        if at:
            if gap.shows_from <= at[0]:
                raise BridgeDeclined("a new message changes what comes before the close of the assistant's turn")
            before, close = gap.gap[: at[0]], gap.gap[at[0]]
            tail = (gap.gap + gap.tail)[at[0] + 1 :]
        elif turn.calls:
            # Some formats don't close a turn of calls: then the results must continue as they do after text.
            plain = self._seam(MadeUpTurn(turn.new), tools, ending)
            before, close, tail = (), plain.close, plain.tail
            if not tail or len(gap.gap + gap.tail) < len(tail) or whole[len(whole) - len(tail) :] != tail:
                raise BridgeDeclined("there is no close token between the calls of the assistant's turn and the new messages")
        else:
            raise BridgeDeclined("there is no close token between the assistant's turn and the new messages")
        return _Seam(whole[: len(whole) - len(tail)], before, close, tail)

    def _history_close(self, new: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> frozenset[int]:
        """The close that history uses where it isn't a stop id (``<|end|>`` in harmony; a role tag in GLM)."""
        found: set[int] = set()
        for role in ("user", new[0]["role"]):
            key = ("close", role, bool(tools))
            if key not in self._cache:
                try:
                    self._remember(key, self._experiment(MadeUpTurn([{"role": role, "content": STAND_IN}]), tools).gap[:1])
                except BridgeDeclined:
                    self._remember(key, ())
            found.update(token for token in self._cache[key] if token in self._special)
        return frozenset(found)

    # The experiment

    def _experiment(self, turn: MadeUpTurn, tools: list[dict[str, Any]] | None) -> _Gap:
        new = turn.new
        one, other = (self._render(turn.history(marker) + new, tools) for marker in MARKERS)
        suffix = common_prefix(reversed(one), reversed(other))
        if suffix >= min(len(one), len(other)):
            raise BridgeDeclined("the renderer drops the assistant's turn")
        start = len(one) - suffix
        end = common_prefix(one, self._render(turn.history() + [altered(message) for message in new], tools))
        if end >= len(one):
            raise BridgeDeclined("the renderer drops the new messages")
        if end < start:
            raise BridgeDeclined("the new messages change how the turns before them are rendered")
        shows_from = end - start
        for index in range(len(new) if len(new) > 1 else 0):
            alone = [altered(message) if at == index else message for at, message in enumerate(new)]
            shown = self._render(turn.history() + alone, tools)
            if shown == one:
                raise BridgeDeclined(f"the renderer drops new message {index} ({new[index]['role']})")
            shows_from = min(shows_from, common_prefix(one, shown) - start)
        return _Gap(tuple(one[:start]), tuple(one[start:end]), tuple(one[end:]), shows_from)

    def _render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        try:
            return list(self._render_upstream([dict(message) for message in messages], tools))
        except BridgeDeclined:
            raise
        except RendererError as error:
            raise BridgeDeclined(f"the renderer refuses: {str(error).splitlines()[0]}") from error
        except Exception as error:
            raise BridgeDeclined(f"the renderer refuses the new messages: {type(error).__name__}: {error}") from error


class _NotSettled(BridgeDeclined):
    """Hypotheses about the sampled calls give different tails."""

    def __init__(self, reason: str = "what isn't known about the sampled calls changes the new messages") -> None:
        super().__init__(reason)


def common_prefix(one: Iterable[int], other: Iterable[int]) -> int:
    """How many ids two sequences begin with alike; of two reversed ones, how many they end with."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
