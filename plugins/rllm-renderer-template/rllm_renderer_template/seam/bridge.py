"""A bridge for any renderer: the boundary between turns is learned by experiment instead of known by format.

A bridge has to append to a prompt and its completion what the format puts between the end of an assistant turn and the
next generation prompt. This module needs only a function that renders messages to prompt ids. It renders a probe conversation
with the new messages behind it, with different texts in the assistant's turn and in the new messages: between them lies the
close of the assistant's turn (see ``experiment``). What follows the close is what follows the completion.

Where the gap has no close or two, where a message shows before the close or not at all, or where facts about the sampled calls
that aren't known would change the tail, the bridge declines. Nothing is decoded or encoded again; ids alone are compared.

The gap depends on the shape of the new messages (roles, tools, which contents are blank), not on what they say. So it is
learned once a shape, on stand-in contents; a call then costs one render of the probe conversation with the real messages, whose
head must equal the learned one; where it doesn't, the experiment is repeated on the real messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.ids import BridgedTokens
from rllm_renderer_core.normal_form.pairing import Call, calls_of, certain_pairing, results_in
from rllm_renderer_core.probing.calls import TOOL
from rllm_renderer_core.types import Message, RenderedTokens

from .experiment import Experiments, NotSettled, Render, Tools, TurnBoundary
from .probe_turns import CALL, STAND_IN, ProbeTurn, possible_calls, without_texts


class SeamBridge:
    """Bridges turns for a renderer that can only render.

    Args:
        render: Messages and tools (normal form) to prompt ids, with the generation prompt at the end. What it raises is a
            decline.
        stop_ids: The ids at which sampling stops.
        special_ids: Ids of control tokens, which ordinary text doesn't become.
        parse_calls: Sampled ids to the names and ids of the calls in them; asked only where the format shows which result
            answers which call and ``previous_message`` isn't given.
        named_results: Whether results reach ``render`` with the names of their calls (the core's wrapper fills them in unless
            the renderer says ``wants_result_names = False``).
        cache_size: How many results of experiments are remembered.
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
        self._stops = frozenset(stop_ids)
        self._special = frozenset(special_ids) | self._stops
        self._experiments = Experiments(render, self._stops, self._special, cache_size)
        self._parse_calls = parse_calls
        self._named_results = named_results

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens:
        """Prompt, completion, the close where none was sampled, and the tail. Arguments as in ``Renderer``, in normal form.

        Raises:
            BridgeDeclined: With the reason, where the tail can't be proven.
        """
        prompt, sampled = previous_prompt_ids, list(previous_completion_ids)  # the prompt may be long: it is never copied
        new = [dict(message) for message in new_messages]
        declared = None if not tools else list(tools)
        if not prompt or not new:
            raise BridgeDeclined("the previous prompt is empty" if not prompt else "there is no new message")
        if any(not isinstance(message["content"], str) for message in new):
            raise BridgeDeclined("the new messages carry media, which can't be bridged by experiment")
        if any(message["role"] == "assistant" for message in new):
            raise BridgeDeclined("an assistant message is among the new ones: its tokens weren't sampled here")
        ending = next((token for token in sampled[-1:] if token in self._special), None)
        boundary = self._find(new, declared, sampled, previous_message, ending)
        if boundary.calls_alone and (previous_message is None or previous_message["content"].strip()):
            raise BridgeDeclined(
                "the format moves text beside calls behind their results, and the completion may have such text",
                fix="pass previous_message, if its content is empty",
            )
        delta = self._continue(sampled, boundary, results=bool(results_in(new)))
        return BridgedTokens(prompt, sampled, delta)

    def why_not(self, tools: Tools = None) -> str | None:
        """Why neither a user message nor a result can be bridged, ``None`` where one of them can."""
        why = None
        turn = ProbeTurn([{"role": "tool", "content": STAND_IN, "name": CALL[0][0], "tool_call_id": CALL[0][1]}], CALL)
        previous = turn.history()[-1]
        for new, declared in (([{"role": "user", "content": STAND_IN}], tools), (turn.new, [TOOL])):
            try:
                self._find(new, declared, [], previous, None)
            except BridgeDeclined as declined:
                why = why or declined.reason
            else:
                return None
        return why

    def turn_ends(self, tools: Tools = None) -> list[int]:
        """Stop ids, with the close that history shows where the tokenizer's own stops don't have it.

        Formats without a close end a turn by the next role's tag (GLM's ``<|user|>`` and ``<|observation|>``). A close that
        history also shows inside a turn (harmony's ``<|end|>``, behind each of a turn's messages) stops nothing.
        """
        behind = self._experiments.history_close
        tags = behind([{"role": "user"}], tools) | behind([{"role": "tool"}], tools)
        turn = next((each for each in ProbeTurn([], CALL).variants() if self._rendered(each, tools)), ProbeTurn([], CALL))
        bare, *fuller = (self._rendered(each, tools) for each in (turn, *turn.with_optional_parts()))
        return sorted(self._stops | {tag for tag in tags if all(ids.count(tag) <= bare.count(tag) for ids in fuller)})

    def _rendered(self, turn: ProbeTurn, tools: Tools) -> list[int]:
        try:
            return self._experiments.render(turn.history(), tools)
        except BridgeDeclined:
            return []

    # From the boundary to the delta

    def _continue(self, sampled: list[int], boundary: TurnBoundary, *, results: bool) -> list[int]:
        """The ids to append to prompt and completion, given what the completion ends with."""
        at = next((index for index, token in enumerate(sampled) if token in self._stops), None)
        if at is None and sampled[-1:] == [boundary.close]:
            at = len(sampled) - 1
        if at is None:
            if not self._special.isdisjoint(sampled[-1:]):
                raise BridgeDeclined(f"the completion ends in the control token {sampled[-1]}, which closes nothing here")
            before = list(boundary.before_close)
            if results and before and sampled[-len(before) :] != before:
                raise BridgeDeclined("the completion was cut off before the end of its tool calls, and results follow")
            return [*(() if results else before), boundary.close, *boundary.tail]
        if sampled[at] != boundary.close:
            # Behind another stop the tag of a new message's role would be lost (GLM's ``<|system|>``, which stops nothing), but
            # not a close that history shows whatever follows.
            everywhere = self._experiments.history_close([{"role": "user"}], None) - self._stops
            if boundary.close not in everywhere:
                raise BridgeDeclined(
                    f"the sampled stop {sampled[at]} contradicts the new messages, which follow {boundary.close}"
                )
        extra = sampled[at + 1 :]
        if any(token in self._special for token in extra) or list(boundary.tail[: len(extra)]) != extra:
            raise BridgeDeclined("ids follow the stop of the completion that aren't how the next turn begins")
        return list(boundary.tail[len(extra) :])

    # From the shape to the boundary

    def _find(
        self,
        new: list[dict[str, Any]],
        tools: Tools,
        sampled: list[int],
        previous: Message | None,
        ending: int | None,
    ) -> TurnBoundary:
        if not results_in(new):
            return self._applied([ProbeTurn(new)], tools, ending)
        try:
            return self._applied(possible_calls(new, self._named_results, keep=False), tools, ending)
        except NotSettled:
            pass  # names, ids or the order of the calls show in the tail: they must be known
        results = [new[index] for index in results_in(new)]
        parsed = self._parse_calls(sampled) if previous is None and self._parse_calls is not None else ()
        calls = parsed if previous is None else calls_of(previous)
        pairing = certain_pairing(calls, results)
        known = [ProbeTurn(new, tuple(pairing))] if pairing else possible_calls(new, self._named_results, keep=True)
        try:
            return self._applied(known, tools, ending)
        except NotSettled:
            raise BridgeDeclined(
                f"the format shows which call a result answers, and {len(results)} result(s) can't be paired for certain "
                f"with the {len(calls)} call(s) of the completion",
                fix="pass previous_message (Rollout does), and results with the ids of their calls",
            ) from None

    def _applied(self, turns: Sequence[ProbeTurn], tools: Tools, ending: int | None) -> TurnBoundary:
        """The learned boundary with the tail of the real messages."""
        boundary = self._learned(turns, tools, ending)
        ids = self._experiments.render(boundary.probe.history() + turns[0].new, tools)
        if tuple(ids[: len(boundary.head)]) != boundary.head:
            return self._experiments.settle(turns, tools, ending)
        return replace(boundary, tail=tuple(ids[len(boundary.head) :]))

    def _learned(self, turns: Sequence[ProbeTurn], tools: Tools, ending: int | None) -> TurnBoundary:
        ending = None if ending in self._stops else ending
        key = (without_texts(turns[0].new), repr(tools), tuple(turn.calls for turn in turns), ending)
        return self._experiments.remembered(
            key, lambda: self._experiments.settle([turn.with_stand_ins() for turn in turns], tools, ending)
        )
