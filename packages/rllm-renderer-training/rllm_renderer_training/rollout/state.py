"""The state of a rollout: what is kept, and how it is forked, written and pickled without its renderer."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..errors import RolloutError
from .completions import as_forced, as_logprob, as_values, as_version
from .replies import Reply, ShownCall
from .segment import Decline, Segment, Turn

if TYPE_CHECKING:
    from typing_extensions import Self

SCHEMA = 1
_PER_ID = {"logprobs": as_logprob, "versions": as_version, "forced": as_forced}


class RolloutState:
    """Plain state without I/O; see ``Rollout``."""

    def __init__(self, renderer: ResolvedRenderer) -> None:
        self._renderer: ResolvedRenderer | None = renderer
        self.segments: list[Segment] = []
        self.declines: list[Decline] = []
        self.turns = 0
        self.current = 0  # number of the segment that is gone on with

    def __repr__(self) -> str:
        ids = sum(len(segment.token_ids) for segment in self.segments)
        return f"<Rollout: {self.turns} turns, {len(self.segments)} segments, {ids} ids>"

    @property
    def renderer(self) -> ResolvedRenderer:
        """The renderer.

        Raises:
            RolloutError: The rollout came out of a pickle in another process.
        """
        if self._renderer is None:
            raise RolloutError("this rollout was unpickled without its renderer", fix="call rollout.attach(renderer) first")
        return self._renderer

    def attach(self, renderer: ResolvedRenderer) -> Self:
        """Give a rollout that was unpickled its renderer.

        Raises:
            RolloutError: It was made with another one.
        """
        _refuse_other(self.__dict__.get("_made_by") or self.renderer.resolution, renderer)
        self._renderer = renderer
        return self

    @property
    def segment(self) -> Segment:
        """The current segment."""
        return self.segments[self.current]

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """The tools that are declared in the current segment, in normal form."""
        return self.segment.tools if self.segments else None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation of the current segment, in normal form, with the assistant messages as parsed."""
        return self.segment.messages if self.segments else []

    @property
    def recorded(self) -> bool:
        """Whether something was sampled from the current prompt."""
        return bool(self.segments) and self.segment.recorded

    @property
    def prompt_ids(self) -> list[int]:
        """The prompt that the current turn is, or was, sampled from. A copy."""
        return self.segment.token_ids[: self.segment.prompt_size] if self.segments else []

    def fork(self, *, sampled: bool = True) -> Self:
        """An independent rollout from here on, with the same renderer: for groups and trees of rollouts.

        Costs one copy of the ids.

        Args:
            sampled: Whether the turns so far count as sampled in the fork too, so that they are trained with its reward as
                well. ``False`` leaves them to this rollout alone.
        """
        fork = type(self)(self.renderer)
        fork.segments = [segment.copy(sampled=sampled) for segment in self.segments]
        fork.declines, fork.turns, fork.current = list(self.declines), self.turns, self.current
        return fork

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def html(self) -> str:
        """A page of all segments, complete in one file: ids on hover, sampled ids by log-probability, declines with reasons."""
        from ..page.page import rollout_page

        return rollout_page(self)

    def _repr_html_(self) -> str:
        from ..page.page import framed

        return framed(self.html())

    def to_dict(self) -> dict[str, Any]:
        """JSON values: everything but renderer and tokenizer, with the resolution that says which renderer it was."""
        return {
            "schema": SCHEMA,
            "resolution": self.renderer.resolution.to_dict(),
            "segments": [_segment_as_dict(segment) for segment in self.segments],
            "declines": [asdict(decline) for decline in self.declines],
            "turns": self.turns,
            "current": self.current,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], renderer: ResolvedRenderer) -> Self:
        """The rollout that ``to_dict`` wrote.

        Raises:
            RolloutError: The data isn't a rollout, or was made with another renderer.
        """
        rollout = cls(renderer)
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            schema = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
            raise RolloutError(f"a rollout of schema {schema!r} can't be read, this is schema {SCHEMA}", fix="write it again")
        _refuse_other(Resolution.from_dict(data["resolution"]), renderer)
        try:
            rollout.segments = [_segment(segment, renderer) for segment in data["segments"]]
            rollout.declines = [Decline(**decline) for decline in data["declines"]]
            rollout.turns, rollout.current = int(data["turns"]), int(data["current"])
            if not 0 <= rollout.current < max(1, len(rollout.segments)):
                raise ValueError(f"segment {rollout.current} is the current one of {len(rollout.segments)}")
        except RendererError as error:
            raise RolloutError(f"not a rollout: {str(error).splitlines()[0]}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RolloutError(f"not a rollout: {type(error).__name__}: {error}") from error
        return rollout

    def __getstate__(self) -> dict[str, Any]:
        if self._renderer is None:
            return self.__dict__
        return {**self.__dict__, "_renderer": None, "_key": _key_of(self._renderer), "_made_by": self._renderer.resolution}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renderer = _alive.get(state["_key"])


_alive: weakref.WeakValueDictionary[str, ResolvedRenderer] = weakref.WeakValueDictionary()
_keys: weakref.WeakKeyDictionary[ResolvedRenderer, str] = weakref.WeakKeyDictionary()


def _key_of(renderer: ResolvedRenderer) -> str:
    """A name of this very renderer in this process and those forked from it."""
    key = _keys.setdefault(renderer, uuid.uuid4().hex)
    _alive[key] = renderer
    return key


def _refuse_other(made_by: Resolution, renderer: ResolvedRenderer) -> None:
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
