"""The hooks that a plugin may implement: the backends that it adds, and what it knows of a tokenizer's own chat template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pluggy

from .backend import Backend, Coverage, Query

GROUP = "rllm_renderer"
"""Entry-point group, and pluggy's project name."""

API_VERSION = 1
"""Version of the plugin API. A plugin module may say which it was built for with ``rllm_renderer_api = 1``."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)
"""Marks the hooks in a plugin module."""


@dataclass(frozen=True)
class Registered:
    """A backend with where it came from; ``order`` is its place within its distribution."""

    backend: Backend
    plugin: str
    distribution: str
    version: str
    order: int


@dataclass
class PluginInfo:
    """One plugin found.

    Attributes:
        name: The entry point's name.
        distribution: The distribution that brings it.
        version: That distribution's version.
        state: ``"found"`` (not imported yet), ``"loaded"``, ``"disabled"``, ``"incompatible"``, ``"broken"``, ``"duplicate"``.
        error: Why it can't be used, for the last four.
        backends: Names of its backends, where it was loaded.
        location: Where its metadata lies.
    """

    name: str
    distribution: str
    version: str
    state: str = "found"
    error: str | None = None
    backends: tuple[str, ...] = ()
    location: str = ""


@dataclass(frozen=True)
class Detected:
    """What a search by the tokenizer's chat template came to.

    Attributes:
        registered: The backend whose renderer is proven, ``None`` where none is.
        coverage: What that backend answers when it is asked for this renderer by name, with ``Match.PARITY``.
        reason: One line: what was found, or why nothing was.
    """

    registered: Registered | None
    coverage: Coverage | None
    reason: str

    def __post_init__(self) -> None:
        fields = ((self.registered, Registered | None), (self.coverage, Coverage | None), (self.reason, str))
        if not all(isinstance(value, kind) for value, kind in fields):
            raise TypeError(f"Detected takes a Registered, a Coverage and a text, not {[value for value, _ in fields]!r}")


@runtime_checkable
class Judgement(Protocol):
    """What the tokenizer's chat template says of one resolved renderer. Each method compares when it is called."""

    def better(self, *, need_bridge: bool) -> Detected | None:
        """A renderer that the template proves, where it disproves this one; ``None`` where there is none."""
        ...

    def enforce(self, mode: str) -> None:
        """Say where it differs: a warning, or under ``"error"`` a ``ParityError``."""
        ...

    def faults(self) -> list[str]:
        """What is wrong with the renderer itself, a line each."""
        ...

    def written(self) -> str:
        """A digest of what the renderer writes for the probe conversations."""
        ...


class HookSpec:
    """The hooks of this project."""

    @hookspec
    def rllm_renderer_backends(self) -> Iterable[Backend]:  # type: ignore[empty-body]
        """Return the backends that this plugin adds, most wanted first."""

    @hookspec(firstresult=True)
    def rllm_renderer_detect(self, query: Query, backends: Sequence[Registered]) -> Detected | None:
        """Find the renderer of a tokenizer whose name no backend covers. ``None``: nothing can be said."""

    @hookspec(firstresult=True)
    def rllm_renderer_judge(self, renderer: Any, query: Query, backends: Sequence[Registered]) -> Judgement | None:
        """Whether a resolved renderer is what its tokenizer's chat template says. ``None``: nothing can be said."""
