"""The hooks that a plugin may implement: the backends that it adds, and what it knows of a tokenizer's own chat template.

Each question is asked alone and its answer checked, so that a wrong one stops what it serves and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import pluggy

from ..errors import DuplicatePluginError, IncompatiblePluginError, PluginError
from .backend import Backend, Coverage, Match, Query, Unavailable

T = TypeVar("T")

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
    """One plugin found, by the name of its entry point.

    ``state`` is ``"found"`` (not imported yet), ``"loaded"``, ``"disabled"``, ``"incompatible"``, ``"broken"`` or
    ``"duplicate"``; ``error`` says why it can't be used, ``location`` where its metadata lies.
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
    """What a search by the tokenizer's chat template came to: the backend whose renderer is proven, and what it answers when it
    is asked for that by name, with ``Match.PARITY``; ``None`` where none is. ``reason`` is one line that says why."""

    registered: Registered | None
    coverage: Coverage | None
    reason: str


@runtime_checkable
class Judgement(Protocol):
    """What the tokenizer's chat template says of one resolved renderer. Each method compares when it is called."""

    def better(self, *, need_bridge: bool) -> Detected | None:
        """A renderer that the template proves, where it disproves this one; ``None`` where there is none."""

    def enforce(self, mode: str) -> None:
        """Say where it differs: a warning, or under ``"error"`` a ``ParityError``."""

    def faults(self) -> list[str]:
        """What is wrong with the renderer itself, a line each."""

    def written(self) -> str:
        """A digest of what the renderer writes for the probe conversations."""


class HookSpec:
    """The hooks of this project."""

    @hookspec
    def rllm_renderer_backends(self) -> Iterable[Backend]:  # type: ignore[empty-body]
        """Return the backends that this plugin adds, most wanted first."""

    @hookspec(firstresult=True)
    def rllm_renderer_detect(self, query: Query, backends: Sequence[Registered]) -> Detected | None:
        """Find the renderer of a tokenizer whose name no backend covers, among backends in order of priority. ``None``: nothing
        can be said."""

    @hookspec(firstresult=True)
    def rllm_renderer_judge(self, renderer: Any, query: Query, backends: Sequence[Registered]) -> Judgement | None:
        """Whether a resolved renderer is what its tokenizer's chat template says. ``None``: nothing can be said."""


FIELDS: dict[type, dict[str, Any]] = {
    Coverage: {"renderer": str, "match": Match, "has_bridge": bool, "reason": str},
    Unavailable: {"reason": str, "fix": str},
    Detected: {"registered": Registered | None, "coverage": Coverage | None, "reason": str},
}
"""Types of the fields that are compared, sorted and shown: what is wrong there would fail for every plugin."""

HOOKS: dict[str, type] = {"rllm_renderer_detect": Detected, "rllm_renderer_judge": Judgement}
"""What the hooks answer that ask about one tokenizer, where a plugin has something to say."""


KINDS = {"duplicate": DuplicatePluginError, "incompatible": IncompatiblePluginError}


def answer_of(hooks: Any, hook: str, given: dict[str, Any]) -> Any:
    """What one plugin answers to a hook of ``HOOKS``; a ``TypeError`` where it is something else."""
    return checked(getattr(hooks, hook)(**given), f"{HOOKS[hook].__name__} or None", HOOKS[hook], type(None))


def ask(registered: Registered, query: Query) -> Coverage | Unavailable | None:
    """Whether a backend covers the query; a ``PluginError`` where it raises, or answers with something else."""
    kinds = (Coverage, Unavailable, type(None))
    answer: Coverage | Unavailable | None
    answer = _asked(registered, "covers", lambda said: checked(said, "Coverage, Unavailable or None", *kinds), query)
    return answer


def candidates(registered: Registered, query: Query) -> list[Coverage]:
    """What a backend offers to try by token parity, best guess first; errors as ``ask``."""
    return _asked(registered, "candidates", lambda offers: [checked(offer, "Coverage", Coverage) for offer in offers], query)


def renderer_names(registered: Registered) -> list[str]:
    """The names of renderers that a backend knows, for error messages; errors as ``ask``."""
    return _asked(registered, "renderer_names", _texts)


def parsing(registered: Registered, query: Query, coverage: Coverage) -> str:
    """What a backend says of how its renderer reads completions; errors as ``ask``."""
    return _asked(registered, "parsing", lambda text: _texts([text])[0], query, coverage)


def deviations(registered: Registered, coverage: Coverage) -> dict[str, str]:
    """Where a backend's renderer differs from the template on purpose: names or tags of probes, and why; errors as ``ask``."""
    return _asked(registered, "deviations", lambda why: dict(_texts(pair) for pair in dict(why).items()), coverage)


def backends_of(hooks: Any) -> list[Backend]:
    """The backends that a plugin's hook returns; a ``TypeError`` where it returns something else."""
    answers = hooks.rllm_renderer_backends()
    if not answers:
        if any(getattr(hooks, name).get_hookimpls() for name in HOOKS):
            return []
        raise TypeError("it has no @hookimpl named rllm_renderer_backends, or the hook returned None")
    backends = answers[0]
    if isinstance(backends, (str, bytes, Backend)) or not isinstance(backends, Iterable):
        raise TypeError(f"rllm_renderer_backends must return a list of Backend, not {type(backends).__name__}")
    return [_backend(backend) for backend in backends]


def _backend(backend: Any) -> Backend:
    if not isinstance(backend, Backend):
        raise TypeError(f"rllm_renderer_backends must return Backend instances, not {type(backend).__name__}")
    name, priority = getattr(backend, "name", None), getattr(backend, "priority", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{type(backend).__name__} has no name")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise TypeError(f"backend {name!r} needs an int as priority, not {priority!r}")
    for attribute in ("options", "spellings", "upstream", "own_vocabulary"):
        value = getattr(backend, attribute)
        if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(text, str) for text in value):
            raise TypeError(f"{attribute} of backend {name!r} must be a set or tuple of texts, not {value!r}")
    return backend


def _asked(registered: Registered, method: str, read: Callable[[Any], T], *given: Any) -> T:
    try:
        return read(getattr(registered.backend, method)(*given))
    except (Exception, SystemExit) as error:
        raise plugin_error(registered, f"{method} raised {type(error).__name__}: {error}") from error


def plugin_error(source: PluginInfo | Registered, why: str, fix: str | None = None) -> PluginError:
    """The error about a plugin, of the kind that its state has, or about a backend of it."""
    if isinstance(source, PluginInfo):
        subject, plugin, kind = f"plugin {source.name!r}", source.name, KINDS.get(source.state, PluginError)
    else:
        subject, plugin, kind = f"backend {source.backend.name!r}", source.plugin, PluginError
    return kind(
        f"{subject} of {source.distribution} {source.version}: {why}",
        fix=fix or f"report it to the authors of {source.distribution}, or set RLLM_RENDERER_DISABLED={plugin}",
        plugin=plugin,
        distribution=source.distribution,
        version=source.version,
    )


def checked(answer: Any, expected: str, *types: type) -> Any:
    """The answer, if it is of one of the types and its fields have theirs; else a ``TypeError`` that says what is expected."""
    if not isinstance(answer, types):
        raise TypeError(f"it must return {expected}, not {answer!r}")
    for name, kind in FIELDS.get(type(answer), {}).items():
        value = getattr(answer, name)
        if not isinstance(value, kind):
            declared = type(answer).__annotations__[name]
            raise TypeError(f"{type(answer).__name__}.{name} must be a {declared}, not {value!r}")
    if isinstance(answer, Coverage) and not answer.renderer:
        raise TypeError("Coverage.renderer is empty: what can't be named can't be pinned")
    return answer


def _texts(values: Iterable[Any]) -> list[str]:
    texts = list(values)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"it must give texts, not {texts!r}")
    return texts
