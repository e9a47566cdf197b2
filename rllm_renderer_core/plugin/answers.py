"""What a backend answers, checked: each method asked alone, so that a wrong answer stops what it serves and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import PluginError
from .backend import Coverage, Match, Query, Unavailable
from .hooks import Registered

COVERAGE_FIELDS: dict[str, type] = {"renderer": str, "match": Match, "has_bridge": bool, "reason": str}
UNAVAILABLE_FIELDS: dict[str, type] = {"reason": str, "fix": str}


def ask(registered: Registered, query: Query) -> Coverage | Unavailable | None:
    """A backend's answer.

    Raises:
        PluginError: ``covers`` raised, or answered with something else.
    """
    try:
        answer = registered.backend.covers(query)
        return None if answer is None else _valid(answer)
    except (Exception, SystemExit) as error:
        raise _plugin_error(registered, "covers", error) from error


def candidates(registered: Registered, query: Query) -> list[Coverage]:
    """What a backend offers to try by token parity, best guess first.

    Raises:
        PluginError: ``candidates`` raised, or offers something else than coverages.
    """
    try:
        found = [_valid(each) for each in registered.backend.candidates(query)]
        for each in found:
            if not isinstance(each, Coverage):
                raise TypeError(f"it must offer Coverage, not {each!r}")
        return [each for each in found if isinstance(each, Coverage)]
    except (Exception, SystemExit) as error:
        raise _plugin_error(registered, "candidates", error) from error


def renderer_names(registered: Registered) -> list[str]:
    """The names that a backend knows, for error messages.

    Raises:
        PluginError: ``renderer_names`` raised, or gives something else than texts.
    """
    try:
        return _texts(registered.backend.renderer_names())
    except (Exception, SystemExit) as error:
        raise _plugin_error(registered, "renderer_names", error) from error


def told(registered: Registered, query: Query, coverage: Coverage) -> tuple[str, dict[str, str]]:
    """What a backend says of its renderer: how completions are read, and where it differs from the template on purpose.

    Raises:
        PluginError: ``parsing`` or ``deviations`` raised, or gives something else than texts.
    """
    method = "parsing"
    try:
        (parsing,) = _texts([registered.backend.parsing(query, coverage)])
        method = "deviations"
        deviations = dict(registered.backend.deviations(coverage))
        _texts([*deviations, *deviations.values()])
        return parsing, deviations
    except (Exception, SystemExit) as error:
        raise _plugin_error(registered, method, error) from error


def _texts(values: Iterable[Any]) -> list[str]:
    found = list(values)
    if not all(isinstance(each, str) for each in found):
        raise TypeError(f"it must give texts, not {found!r}")
    return found


def _valid(answer: Any) -> Coverage | Unavailable:
    """The answer, if its fields have the types that they declare: what is compared and sorted later fails for every plugin."""
    if not isinstance(answer, (Coverage, Unavailable)):
        raise TypeError(f"it must return Coverage, Unavailable or None, not {answer!r}")
    for name, kind in (COVERAGE_FIELDS if isinstance(answer, Coverage) else UNAVAILABLE_FIELDS).items():
        value = getattr(answer, name)
        if not isinstance(value, kind):
            raise TypeError(f"{type(answer).__name__}.{name} must be a {kind.__name__}, not {value!r}")
    if isinstance(answer, Coverage) and not answer.renderer:
        raise TypeError("Coverage.renderer is empty: what can't be named can't be pinned")
    checked: Coverage | Unavailable = answer
    return checked


def _plugin_error(registered: Registered, method: str, error: BaseException) -> PluginError:
    return PluginError(
        f"backend {registered.backend.name!r} of {registered.distribution} {registered.version}: "
        f"{method} raised {type(error).__name__}: {error}",
        fix=f"report it to the authors of {registered.distribution}, or set RLLM_RENDERER_DISABLED={registered.plugin}",
        plugin=registered.plugin,
        distribution=registered.distribution,
        version=registered.version,
    )
