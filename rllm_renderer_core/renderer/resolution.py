"""What was resolved, as a plain record: what one process resolved, another can compare, pin and verify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import PinMismatchError
from ..plugin import Match
from .differences import differences

SCHEMA = 1
"""Version of the JSON form."""


@dataclass(frozen=True, eq=False)
class Resolution:
    """Which renderer serves a model, and everything that its ids depend on.

    Two resolutions are equal when they give the same ids; ``reason`` and ``hints`` are for people and don't count.

    Attributes:
        model: The model's name as it was asked for.
        backend: Name of the backend, such as ``"prime"``.
        renderer: The backend's own name of the renderer, such as ``"qwen3"``.
        match: How well it matches, by the name of the ``Match``, in lower case.
        has_bridge: Whether bridges are possible at all.
        options: Options that differ from their defaults, as JSON values.
        plugin: Distribution and version of the plugin: ``"rllm-renderer-prime 0.1.0"``.
        core: Version of rllm-renderer-core.
        upstream: Versions of the wrapped distributions.
        reason: Why this backend won.
        hints: What would serve better, with the fix: plugins not installed, broken or unable to serve the model here.
        sources: Digests of their renderers' files. Where both sides have one it counts, not the version's text; where those
            differ, ``written`` decides.
        written: Digest of the ids for the probes; empty where nothing was rendered. See ``ResolvedRenderer.proof``.
    """

    model: str
    backend: str
    renderer: str
    match: str
    has_bridge: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""
    core: str = ""
    upstream: Mapping[str, str] = field(default_factory=dict)
    reason: str = field(default="", compare=False)
    hints: tuple[str, ...] = field(default=(), compare=False)
    sources: Mapping[str, str] = field(default_factory=dict)
    written: str = ""

    def __eq__(self, other: object) -> bool:
        return not self.differences(other) if isinstance(other, Resolution) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.model, self.backend, self.renderer, self.plugin))

    def to_dict(self) -> dict[str, Any]:
        """JSON values, with ``"schema"`` as the version of this form."""
        return {"schema": SCHEMA, **asdict(self), "hints": list(self.hints)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Resolution:
        """The inverse of ``to_dict``.

        Raises:
            PinMismatchError: The data has another schema, lacks a field or has one that isn't known.
        """
        if data.get("schema") != SCHEMA:
            raise PinMismatchError(
                f"a pinned resolution of schema {data.get('schema')!r} can't be read, this is schema {SCHEMA}",
                fix="write the pin again: rllm-renderer pin MODEL",
            )
        values = {key: value for key, value in data.items() if key != "schema"}
        names = {each.name for each in fields(cls)}
        needed = ("model", "backend", "renderer", "match", "has_bridge")
        odd = sorted(values.keys() - names) + [
            f"no {name}"
            for name in needed
            if values.get(name) is None or (name in ("backend", "renderer") and not values[name])
        ]
        if odd:
            raise PinMismatchError(
                f"not a pinned resolution: {', '.join(odd)}", fix="write the pin again: rllm-renderer pin MODEL"
            )
        if str(values.get("match", "")).upper() not in Match.__members__:
            raise PinMismatchError(f"not a pinned resolution: match {values.get('match')!r} isn't known")
        values["hints"] = tuple(values.get("hints", ()))
        return cls(**values)

    def differences(self, other: Resolution, *, mine: str = "here", theirs: str = "there") -> list[str]:
        """One line for each fact that makes the two unequal: ``"upstream.renderers: 0.1.12 here, 0.1.11 there"``.

        Args:
            other: What to compare with.
            mine: The word for this one in the lines.
            theirs: The word for the other.
        """
        return differences(self, other, mine, theirs)
