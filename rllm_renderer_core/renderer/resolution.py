"""What was resolved, as a plain record: what one process resolved, another can compare, pin and verify."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import PinMismatchError
from ..plugin import Match

SCHEMA = 1
"""Version of the JSON form."""

NEEDED = ("model", "backend", "renderer", "match", "has_bridge")
REWRITE = "write the pin again: rllm-renderer pin MODEL"


@dataclass(frozen=True, eq=False)
class Resolution:
    """Which renderer serves a model, and everything that its ids depend on.

    Two resolutions are equal when they give the same ids. Of what was installed, the strongest evidence that both have counts:
    ``written``, else the digests in ``sources``, else the versions. ``core``, ``reason`` and ``hints`` are for people.

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
        sources: Digests of the files of the plugin and of the wrapped distributions' renderers, by distribution.
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
    reason: str = ""
    hints: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    written: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resolution):
            return NotImplemented
        return self.__dict__ == other.__dict__ or not self.differences(other)  # the first takes no digests of the same sources

    def __hash__(self) -> int:
        return hash((self.model, self.backend, self.renderer))

    def to_dict(self) -> dict[str, Any]:
        """JSON values, with ``"schema"`` as the version of this form."""
        return {"schema": SCHEMA, **asdict(self), "hints": list(self.hints)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Resolution:
        """The inverse of ``to_dict``.

        Raises:
            PinMismatchError: The data has another schema, lacks a field or has one that isn't known.
        """
        schema = data.get("schema")
        if schema != SCHEMA:
            raise PinMismatchError(
                f"a pinned resolution of schema {schema!r} can't be read, this is schema {SCHEMA}", fix=REWRITE
            )
        values = {name: value for name, value in data.items() if name != "schema"}
        faults = sorted(values.keys() - {known.name for known in fields(cls)})
        faults += [f"no {name}" for name in NEEDED if values.get(name) is None]
        faults += [f"no {name}" for name in ("backend", "renderer") if values.get(name) == ""]
        if str(values.get("match", "")).upper() not in Match.__members__:
            faults.append(f"match {values.get('match')!r} isn't known")
        if faults:
            raise PinMismatchError(f"not a pinned resolution: {', '.join(faults)}", fix=REWRITE)
        return cls(**{**values, "hints": tuple(values.get("hints", ()))})

    def differences(self, other: Resolution, *, mine: str = "here", theirs: str = "there") -> list[str]:
        """One line for each fact that makes the two unequal: ``"upstream.renderers: 0.1.12 here, 0.1.11 there"``.

        Args:
            other: What to compare with.
            mine: The word for this one in the lines.
            theirs: The word for the other.
        """
        equal = {name for name, digest in self.sources.items() if other.sources.get(name) == digest}
        proven = self.written != "" and self.written == other.written
        left, right = self._facts(other, equal, proven), other._facts(self, equal, proven)
        return [
            f"{name}: {_shown(left.get(name))} {mine}, {_shown(right.get(name))} {theirs}"
            for name in {**left, **right}
            if left.get(name) != right.get(name)
        ]

    def _facts(self, other: Resolution, equal: Set[str], proven: bool) -> dict[str, Any]:
        """What ids depend on, by the names in the lines of ``differences``: without versions of distributions whose sources are
        ``equal``, and without versions and sources where both are ``proven`` to write the same ids."""
        distribution = self.plugin.partition(" ")[0]
        facts = {name: getattr(self, name) for name in NEEDED}
        facts |= {f"options.{name}": value for name, value in self.options.items()}
        facts["plugin"] = distribution if proven or distribution in equal else self.plugin
        if not proven:
            facts |= {f"upstream.{name}": version for name, version in self.upstream.items() if name not in equal}
            facts |= {f"sources.{name}": self.sources[name] for name in sorted(self.sources.keys() & other.sources.keys())}
        if self.written and other.written:
            facts["written"] = self.written
            if self.written != other.written:
                facts["core"] = self.core
        return facts


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else "not set" if value is None else json.dumps(value, default=repr)
