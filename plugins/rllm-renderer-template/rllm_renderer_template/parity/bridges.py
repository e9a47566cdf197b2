"""Bridge parity: whether a renderer continues a turn with the ids that the reference continues it with, shape by shape.

For each turn shape, prompt and completion are the reference's own: its prompt, and the assistant's turn as it writes it,
reasoning included, up to the stop; where it writes none, each stop of the renderer is tried. Both sides then bridge them to the
same new messages. The delta is what a side puts behind prompt and completion:

- both give ids: the two deltas must be equal, id for id;
- the renderer gives ids and the reference declines: the delta must be how the reference's render of the whole conversation
  ends; where it refuses that conversation, nothing is proven, which is no difference;
- the renderer declines: nothing is wrong, as a decline never gives wrong ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined, RendererError
from rllm_renderer_core.normal_form.ids import common_prefix, last_of
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.types import RenderedTokens

from ..reasons import reason_of
from .comparison import Budget
from .probes import OPENING, REASONING, TURN_SHAPES, TurnShape
from .report import Difference


class BridgeOutcome(str, Enum):
    """What came of one turn shape; of several stops that were tried, the worst."""

    AGREES = "agrees"
    DIFFERS = "differs"
    DECLINED = "the renderer declines"
    UNPROVEN = "the reference declines and refuses"
    REFUSED = "the reference has no such turn"
    NOT_TRIED = "not tried"

    __str__ = str.__str__


@dataclass(frozen=True)
class BridgeResult:
    """One turn shape: its name, the outcome, the difference between the two continuations, and the reason of a decline."""

    shape: str
    outcome: BridgeOutcome
    difference: Difference | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "outcome": str(self.outcome)}


def compare_bridges(
    renderer: ResolvedRenderer,
    reference: ResolvedRenderer,
    *,
    budget: Budget | None = None,
    shapes: Sequence[TurnShape] = TURN_SHAPES,
) -> Iterator[BridgeResult]:
    """Each turn shape through both, as it is tried, until the budget is spent. The reference is ``SeamBridge`` over the chat
    template (``template_renderer``), or another backend's renderer."""
    budget = budget or Budget()
    for shape in shapes:
        if budget.over:
            yield BridgeResult(shape.name, BridgeOutcome.NOT_TRIED, None, f"{budget.seconds:g} s were over")
            continue
        with budget.spent():
            result = _shape(renderer, reference, shape)
        yield result


def bridges_differ(results: Sequence[BridgeResult]) -> bool:
    """Whether any shape is continued with other ids."""
    return any(each.outcome is BridgeOutcome.DIFFERS for each in results)


def _shape(renderer: ResolvedRenderer, reference: ResolvedRenderer, shape: TurnShape) -> BridgeResult:
    try:
        prompt, completions = _sampled(renderer, reference, shape)
    except RendererError as error:
        return BridgeResult(shape.name, BridgeOutcome.REFUSED, None, reason_of(error))
    results = [_bridged(renderer, reference, shape, prompt, sampled) for sampled in completions]
    order = (BridgeOutcome.DIFFERS, BridgeOutcome.AGREES, BridgeOutcome.UNPROVEN, BridgeOutcome.DECLINED)
    return min(results, key=lambda result: order.index(result.outcome))


def _sampled(renderer: ResolvedRenderer, reference: ResolvedRenderer, shape: TurnShape) -> tuple[list[int], list[list[int]]]:
    """Prompt and completions in the reference's framing, one for each stop that the turn may have ended with.

    Raises:
        RendererError: The reference has no such turn.
    """
    prompt = reference.render_ids(OPENING, tools=shape.tools, add_generation_prompt=True)
    thinking = {**shape.assistant, "reasoning_content": REASONING}
    try:
        whole = reference.render_ids([*OPENING, thinking], tools=shape.tools)
    except RendererError:
        whole = reference.render_ids([*OPENING, shape.assistant], tools=shape.tools)
    sampled = whole[common_prefix(prompt, whole) :]
    markers = reference.traits.reasoning_ids() or ()
    # C must close the reasoning that the prompt opens, also where the template drops it from a finished turn.
    if markers and last_of(markers, prompt) == markers[0] and markers[1] not in sampled:
        sampled = [markers[1], *sampled]
    stops = renderer.get_stop_token_ids()
    closes = {*stops, *reference.get_stop_token_ids()}
    at = next((index for index in reversed(range(len(sampled))) if sampled[index] in closes), None)
    return prompt, [[*sampled, stop] for stop in stops] if at is None else [sampled[: at + 1]]


def _tried(side: ResolvedRenderer, shape: TurnShape, prompt: list[int], sampled: list[int]) -> RenderedTokens | BridgeDeclined:
    try:
        return side.try_bridge(prompt, sampled, shape.new, tools=shape.tools, previous_message=shape.assistant)
    except Exception as error:  # under RLLM_RENDERER_STRICT=1, where what is otherwise declined raises
        return BridgeDeclined(reason_of(error))


def _bridged(
    renderer: ResolvedRenderer, reference: ResolvedRenderer, shape: TurnShape, prompt: list[int], sampled: list[int]
) -> BridgeResult:
    mine, theirs = (_tried(side, shape, prompt, sampled) for side in (renderer, reference))
    size = len(prompt) + len(sampled)
    if not isinstance(mine, RenderedTokens):
        return BridgeResult(shape.name, BridgeOutcome.DECLINED, None, mine.reason)
    got = mine.token_ids[size:]
    if isinstance(theirs, RenderedTokens):
        expected = theirs.token_ids[size:]
    else:
        try:
            whole = reference.render_ids([*OPENING, shape.assistant, *shape.new], tools=shape.tools, add_generation_prompt=True)
        except RendererError as error:
            return BridgeResult(shape.name, BridgeOutcome.UNPROVEN, None, f"{theirs.reason}; {reason_of(error)}")
        expected = whole[max(0, len(whole) - len(got)) :]
    if got == expected:
        return BridgeResult(shape.name, BridgeOutcome.AGREES)
    return BridgeResult(shape.name, BridgeOutcome.DIFFERS, Difference.between(expected, got, renderer.tokenizer))
