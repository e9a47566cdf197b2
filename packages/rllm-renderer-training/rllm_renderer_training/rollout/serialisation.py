"""A rollout as JSON values, without renderer and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.renderer.resolution import Resolution

from ..errors import RolloutError
from .completions import as_logprobs
from .replies import Reply, ShownCall
from .segment import Decline, Segment, Turn

if TYPE_CHECKING:
    from rllm_renderer_core.renderer.resolved import ResolvedRenderer

    from .state import RolloutState

SCHEMA = 1


def as_dict(rollout: RolloutState) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "resolution": rollout.renderer.resolution.to_dict(),
        "tools": rollout.tools,
        "segments": [
            {
                "token_ids": list(segment.token_ids),
                "turns": [_turn(turn) for turn in segment.turns],
                "messages": [dict(message) for message in segment.messages],
            }
            for segment in rollout.segments
        ],
        "declines": [asdict(decline) for decline in rollout.declines],
        "turns": rollout.turns,
        "replies": [
            {"message": index, "content": reply.content, "calls": [call._asdict() for call in reply.calls]}
            for index, reply in rollout.replies.items()
        ],
        "prompt_size": rollout.prompt_size,
        "recorded": rollout.recorded,
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {**asdict(turn), "logprobs": None if turn.logprobs is None else list(turn.logprobs)}


def read_into(rollout: RolloutState, data: Mapping[str, Any]) -> None:
    """Fill a new rollout with what ``as_dict`` wrote; errors as ``Rollout.from_dict``."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        schema = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise RolloutError(f"a rollout of schema {schema!r} can't be read, this is schema {SCHEMA}", fix="write it again")
    refuse_other(Resolution.from_dict(data["resolution"]), rollout.renderer)
    try:
        _read(rollout, data)
    except RendererError as error:
        raise RolloutError(f"not a rollout: {str(error).splitlines()[0]}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RolloutError(f"not a rollout: {type(error).__name__}: {error}") from error


def refuse_other(made_by: Resolution, renderer: ResolvedRenderer) -> None:
    """Raise ``RolloutError`` for a renderer that isn't as the one that a rollout was made with."""
    differences = made_by.differences(renderer.resolution, mine="recorded")
    if differences:
        lines = "\n  ".join(differences)
        raise RolloutError(
            f"the rollout was made with another renderer\n  {lines}", fix="resolve with pin=data['resolution'], and pass that"
        )


def _read(out: RolloutState, data: Mapping[str, Any]) -> None:
    out.tools = normalize_tools(data["tools"])
    out.segments = [_segment(each, out.renderer) for each in data["segments"]]
    out.declines = [Decline(**each) for each in data["declines"]]
    out.turns = int(data["turns"])
    out.replies = {
        each["message"]: Reply(each["content"], tuple(ShownCall(**call) for call in each["calls"])) for each in data["replies"]
    }
    size, recorded = data["prompt_size"], data["recorded"]
    last = len(out.segments[-1].token_ids) if out.segments else 0
    if not isinstance(recorded, bool) or not isinstance(size, int) or not 0 <= size <= last or (not recorded and size != last):
        raise ValueError(f"prompt_size {size!r} doesn't fit the last segment of {last} ids")
    out.prompt_size, out.recorded = size, recorded


def _segment(data: Mapping[str, Any], renderer: ResolvedRenderer) -> Segment:
    segment = Segment(list(renderer.as_ids(data["token_ids"])), [], normalize_messages(data["messages"]))
    end = 0
    for each in data["turns"]:
        start, stop = each["start"], each["end"]
        if not end <= start <= stop <= len(segment.token_ids):
            raise ValueError(f"a turn from {start} to {stop} doesn't fit {len(segment.token_ids)} ids behind {end}")
        logprobs = each["logprobs"]
        kept = None if logprobs is None else tuple(as_logprobs(logprobs, stop - start))
        if not 0 <= each["message"] < len(segment.messages):
            raise ValueError(f"a turn has message {each['message']} of {len(segment.messages)}")
        segment.turns.append(Turn(start, stop, kept, bool(each["restored_stop"]), each["message"]))
        end = stop
    return segment
