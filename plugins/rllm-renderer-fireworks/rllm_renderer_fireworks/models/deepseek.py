"""DeepSeek-V4: results in the order of their calls, and what the cookbook merges is still attributed.

Source: ``encoding_dsv4.py`` of DeepSeek-V4-Flash, which merges results and user messages into one turn and sorts the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_tinker.renderer import TinkerRenderer
from rllm_renderer_tinker.rewrites import INDEX, MERGED

from rllm_renderer_core.errors import BridgeDeclined
from rllm_renderer_core.normal_form.pairing import Call, calls_of, in_call_order, places_among, results_in, sampled_calls
from rllm_renderer_core.types import Message

_ONE_TURN = ("user", "tool")


class Numbered:
    """In front of the cookbook's renderers, which merge messages into new ones without our numbers."""

    def _preprocess(self, messages: list[Any]) -> list[Any]:
        out: list[Any] = super()._preprocess(messages)  # type: ignore[misc]
        runs: list[list[Any]] = []
        for message in messages:
            if runs and message["role"] in _ONE_TURN and runs[-1][-1]["role"] in _ONE_TURN:
                runs[-1].append(message)
            else:
                runs.append([message])
        for message, run in zip(out, runs, strict=True):
            message[INDEX] = run[0].get(INDEX, -1)
            if len(run) > 1:
                message[MERGED] = len(run)
        return out


class DeepSeekV4Renderer(TinkerRenderer):
    """The adapter over the cookbook's DeepSeek-V4, whose calls carry no ids."""

    def _paired(
        self, new: Sequence[Message], previous: Message | None, completion: Sequence[int], tools: Sequence[Any] | None
    ) -> tuple[Sequence[Message], Message | None]:
        """The results in the order of their calls.

        Raises:
            BridgeDeclined: Several results that can't be paired with their calls for certain.
        """
        if len(results_in(new)) < 2:
            return new, previous
        calls = sampled_calls(self.parse_response(completion, tools=tools)) if previous is None else calls_of(previous)
        return _ordered(list(new), calls)


def _ordered(messages: list[Message], calls: Sequence[Call]) -> tuple[list[Message], Message]:
    """The messages with their results in the order of their calls, and a turn of those calls."""
    at = results_in(messages)
    ids = [messages[index].get("tool_call_id") for index in at]
    order = places_among([call_id for _, call_id in calls], ids)
    order = order or places_among([name for name, _ in calls], [messages[index].get("name") for index in at])
    if order is None or None in ids or len(set(ids)) < len(ids):
        raise BridgeDeclined(
            f"the format orders results by call, and {len(at)} results can't be paired for certain with the {len(calls)} calls "
            "of the completion, which carry no ids",
            fix="pass previous_message (Rollout does), and results with the ids of their calls",
        )
    answered = dict(zip(order, ids, strict=True))
    named = [
        {"id": answered.get(place, f"unanswered_{place}"), "type": "function", "function": {"name": name, "arguments": "{}"}}
        for place, (name, _) in enumerate(calls)
    ]
    return in_call_order(messages, order), {"role": "assistant", "content": "", "tool_calls": named}
