"""The assistant's turns as they were shown, with calls that don't parse among them, and results that answer those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.ids import IdsView
from rllm_renderer_core.normal_form.pairing import results_in
from rllm_renderer_core.types import ParsedResponse, ToolCallStatus

if TYPE_CHECKING:
    from rllm_renderer_core.renderer.resolved import ResolvedRenderer

    from .segment import Segment

ADVICE = "answer it with a user message that says what was wrong"
HYPOTHESES = ("alpha", "omega")
"""Names for a call without one: where both give the same ids, the format doesn't show the name."""


class ShownCall(NamedTuple):
    """One call as ``parse_response`` showed it."""

    name: str
    id: str | None
    arguments: str
    ok: bool


@dataclass(frozen=True)
class Reply:
    """One assistant turn as it was shown: its content without the text of broken calls, and every call."""

    content: str
    calls: tuple[ShownCall, ...] = ()

    @classmethod
    def of(cls, parsed: ParsedResponse) -> Reply:
        calls = (
            ShownCall(call.name, call.id, str(call["function"]["arguments"]), call.status is ToolCallStatus.OK)
            for call in parsed.tool_calls
        )
        return cls(parsed.content, tuple(calls))


def answers_broken(reply: Reply | None, new: Sequence[dict[str, Any]]) -> bool:
    """Whether one of the results answers a call that isn't OK."""
    broken = {call.id for call in reply.calls if not call.ok} if reply is not None else set()
    return any(new[index].get("tool_call_id") in broken - {None} for index in results_in(new))


def bridged_over_broken(renderer: ResolvedRenderer, segment: Segment, new: list[dict[str, Any]]) -> list[int] | BridgeDeclined:
    """The ids behind a segment and its last completion, where results may answer calls that don't parse.

    The message of such a turn has its broken calls as text. For pairing, the bridge gets a message with every call that was
    shown; one without a name gets two names in turn, and where the ids depend on it, the bridge is declined.
    """
    history, completion = IdsView(segment.token_ids, segment.turn_start), segment.token_ids[segment.turn_start :]
    reply, shown = segment.replies.get(len(segment.messages) - 1), segment.messages[-1:]
    if reply is not None and answers_broken(reply, new):
        names = HYPOTHESES if any(not call.name for call in reply.calls) else HYPOTHESES[:1]
        calls = [[_as_call(call, name) for call in reply.calls] for name in names]
        shown = [{"role": "assistant", "content": reply.content, "tool_calls": tried} for tried in calls]
    deltas: list[list[int]] = []
    for previous in shown:
        bridged = renderer.try_bridge(history, completion, new, tools=segment.tools, previous_message=previous)
        if isinstance(bridged, BridgeDeclined):
            return bridged
        deltas.append(bridged.delta)
    if any(delta != deltas[0] for delta in deltas):
        return BridgeDeclined("the format shows which call a result answers, and that call has no name", fix=ADVICE)
    return deltas[0]


def _as_call(call: ShownCall, name: str) -> dict[str, Any]:
    arguments = call.arguments if call.ok else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name or name, "arguments": arguments}}
