"""What a plugin is asked: each question alone, and the answer checked, so that a wrong one stops what it serves and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..errors import PluginError
from .backend import Backend, Coverage, Match, Query, Unavailable
from .hooks import Detected, Judgement, PluginInfo, Registered

T = TypeVar("T")

FIELDS: dict[type, dict[str, type]] = {
    Coverage: {"renderer": str, "match": Match, "has_bridge": bool, "reason": str},
    Unavailable: {"reason": str, "fix": str},
}
"""Types of the fields that are compared, sorted and shown: what is wrong there would fail for every plugin."""


HOOKS: dict[str, type] = {"rllm_renderer_detect": Detected, "rllm_renderer_judge": Judgement}
"""What the hooks answer that ask about one tokenizer, where a plugin has something to say."""


def ask(registered: Registered, query: Query) -> Coverage | Unavailable | None:
    """Whether a backend covers the query.

    Raises:
        PluginError: ``covers`` raised, or answered with something else; so for the other questions.
    """
    covers, expected = registered.backend.covers, "Coverage, Unavailable or None"
    answer: Coverage | Unavailable | None
    answer = _asked(registered, "covers", lambda: checked(covers(query), expected, Coverage, Unavailable, type(None)))
    return answer


def candidates(registered: Registered, query: Query) -> list[Coverage]:
    """What a backend offers to try by token parity, best guess first; errors as ``ask``."""
    offers = registered.backend.candidates
    return _asked(registered, "candidates", lambda: [checked(offer, "Coverage", Coverage) for offer in offers(query)])


def renderer_names(registered: Registered) -> list[str]:
    """The names of renderers that a backend knows, for error messages; errors as ``ask``."""
    return _asked(registered, "renderer_names", lambda: _texts(registered.backend.renderer_names()))


def parsing(registered: Registered, query: Query, coverage: Coverage) -> str:
    """What a backend says of how its renderer reads completions; errors as ``ask``."""
    return _asked(registered, "parsing", lambda: _texts([registered.backend.parsing(query, coverage)])[0])


def deviations(registered: Registered, coverage: Coverage) -> dict[str, str]:
    """Where a backend's renderer differs from the template on purpose: names or tags of probes, and why; errors as ``ask``."""
    answer = registered.backend.deviations
    return _asked(registered, "deviations", lambda: dict(_texts(pair) for pair in dict(answer(coverage)).items()))


def backends_of(hooks: Any) -> list[Backend]:
    """The backends that a plugin's hook returns.

    Raises:
        TypeError: It returns something else, or a backend without name or priority.
    """
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


def _asked(registered: Registered, method: str, answer: Callable[[], T]) -> T:
    try:
        return answer()
    except (Exception, SystemExit) as error:
        raise plugin_error(registered, f"{method} raised {type(error).__name__}: {error}") from error


def plugin_error(
    source: PluginInfo | Registered, why: str, fix: str | None = None, kind: type[PluginError] = PluginError
) -> PluginError:
    """The error about a plugin or a backend of it, with its distribution and version."""
    plugin = source.name if isinstance(source, PluginInfo) else source.plugin
    subject = f"plugin {plugin!r}" if isinstance(source, PluginInfo) else f"backend {source.backend.name!r}"
    return kind(
        f"{subject} of {source.distribution} {source.version}: {why}",
        fix=fix or f"report it to the authors of {source.distribution}, or set RLLM_RENDERER_DISABLED={plugin}",
        plugin=plugin,
        distribution=source.distribution,
        version=source.version,
    )


def checked(answer: Any, expected: str, *types: type) -> Any:
    """The answer, if it is of one of the types and its fields have the types that they declare.

    Raises:
        TypeError: It isn't; ``expected`` is what should be there.
    """
    if not isinstance(answer, types):
        raise TypeError(f"it must return {expected}, not {answer!r}")
    for name, kind in FIELDS.get(type(answer), {}).items():
        value = getattr(answer, name)
        if not isinstance(value, kind):
            raise TypeError(f"{type(answer).__name__}.{name} must be a {kind.__name__}, not {value!r}")
    if isinstance(answer, Coverage) and not answer.renderer:
        raise TypeError("Coverage.renderer is empty: what can't be named can't be pinned")
    return answer


def _texts(values: Iterable[Any]) -> list[str]:
    texts = list(values)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"it must give texts, not {texts!r}")
    return texts
