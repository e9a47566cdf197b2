"""The state of a rollout: what is kept, and how it is forked, written and pickled without its renderer."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import RolloutError
from .segment import Decline, Segment

if TYPE_CHECKING:
    from typing_extensions import Self

    from rllm_renderer_core.renderer.resolved import ResolvedRenderer


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
        from .serialisation import refuse_other

        refuse_other(self.__dict__.get("_made_by") or self.renderer.resolution, renderer)
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
        from .serialisation import as_dict

        return as_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], renderer: ResolvedRenderer) -> Self:
        """The rollout that ``to_dict`` wrote.

        Raises:
            RolloutError: The data isn't a rollout, or was made with another renderer.
        """
        from .serialisation import read_into

        rollout = cls(renderer)
        read_into(rollout, data)
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
