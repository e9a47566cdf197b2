"""A rollout as JSON values, without renderer and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.renderer.resolution import Resolution

from ..errors import RolloutError
from .completions import as_forced, as_logprob, as_values, as_version
from .replies import Reply, ShownCall
from .segment import Decline, Segment, Turn

if TYPE_CHECKING:
    from rllm_renderer_core.renderer.resolved import ResolvedRenderer

    from .state import RolloutState

SCHEMA = 1
_PER_ID = {"logprobs": as_logprob, "versions": as_version, "forced": as_forced}


def as_dict(rollout: RolloutState) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "resolution": rollout.renderer.resolution.to_dict(),
        "segments": [_segment_as_dict(segment) for segment in rollout.segments],
        "declines": [asdict(decline) for decline in rollout.declines],
        "turns": rollout.turns,
        "current": rollout.current,
    }


def _segment_as_dict(segment: Segment) -> dict[str, Any]:
    return {
        **vars(segment),
        "token_ids": list(segment.token_ids),
        "turns": [
            {key: list(value) if isinstance(value, tuple) else value for key, value in vars(turn).items()}
            for turn in segment.turns
        ],
        "messages": [dict(message) for message in segment.messages],
        "replies": [
            {"message": index, "content": reply.content, "calls": [call._asdict() for call in reply.calls]}
            for index, reply in segment.replies.items()
        ],
    }


def read_into(rollout: RolloutState, data: Mapping[str, Any]) -> None:
    """Fill a new rollout with what ``as_dict`` wrote; errors as ``Rollout.from_dict``."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        schema = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise RolloutError(f"a rollout of schema {schema!r} can't be read, this is schema {SCHEMA}", fix="write it again")
    refuse_other(Resolution.from_dict(data["resolution"]), rollout.renderer)
    try:
        rollout.segments = [_segment(segment, rollout.renderer) for segment in data["segments"]]
        rollout.declines = [Decline(**decline) for decline in data["declines"]]
        rollout.turns, rollout.current = int(data["turns"]), int(data["current"])
        if not 0 <= rollout.current < max(1, len(rollout.segments)):
            raise ValueError(f"segment {rollout.current} is the current one of {len(rollout.segments)}")
    except RendererError as error:
        raise RolloutError(f"not a rollout: {str(error).splitlines()[0]}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RolloutError(f"not a rollout: {type(error).__name__}: {error}") from error


def refuse_other(made_by: Resolution, renderer: ResolvedRenderer) -> None:
    """Raise ``RolloutError`` for a renderer that isn't as the one that a rollout was made with."""
    if differences := made_by.differences(renderer.resolution, mine="recorded"):
        what = "\n  ".join(["the rollout was made with another renderer", *differences])
        raise RolloutError(what, fix="resolve with pin=data['resolution'], and pass that")


def _segment(data: Mapping[str, Any], renderer: ResolvedRenderer) -> Segment:
    ids, messages = list(renderer.as_ids(data["token_ids"])), normalize_messages(data["messages"])
    start, size, recorded = data["turn_start"], data["prompt_size"], data["recorded"]
    numbers = isinstance(start, int) and isinstance(size, int) and isinstance(recorded, bool)
    if not numbers or not 0 <= start <= size <= len(ids) or (not recorded and size != len(ids)):
        raise ValueError(f"turn_start {start!r} and prompt_size {size!r} don't fit a segment of {len(ids)} ids")
    replies = {
        reply["message"]: Reply(reply["content"], tuple(ShownCall(**call) for call in reply["calls"]))
        for reply in data["replies"]
    }
    segment = Segment(ids, [], messages, normalize_tools(data["tools"]), size, start, recorded, replies)
    end = 0
    for values in data["turns"]:
        turn = Turn(**values)
        if not end <= turn.start <= turn.end <= len(ids):
            raise ValueError(f"a turn from {turn.start} to {turn.end} doesn't fit {len(ids)} ids behind {end}")
        if not 0 <= turn.message < len(messages):
            raise ValueError(f"a turn has message {turn.message} of {len(messages)}")
        end, size = turn.end, turn.end - turn.start
        checked: dict[str, Any] = {name: as_values(getattr(turn, name), size, name, read) for name, read in _PER_ID.items()}
        segment.turns.append(replace(turn, **checked))
    return segment
