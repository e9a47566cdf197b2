"""Who serves a model: asks the backends and chooses.

The highest priority among those that cover; equal priority is decided by match, within one distribution by its own order; still
equal from two distributions is an error. The asking stops at the level of priority where somebody covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..errors import AmbiguousBackendError, BackendUnavailableError, PinMismatchError, PluginError, RendererError
from ..guards.tokenizer_works import check_tokenizer
from ..plugin import Coverage, Detected, Match, Query, Registered, Unavailable
from ..plugin.discovery import Installed, strict, warn_once
from ..plugin.distributions import KNOWN_PLUGINS, absent
from ..plugin.hooks import ask
from ..renderer.resolution import Resolution
from .request import Request

Answered = tuple[Registered, Coverage]


@dataclass(frozen=True)
class Selection:
    """What came of asking the backends.

    Attributes:
        addressed: The backends that were asked, or would have been.
        unavailable: Those that know the model and can't serve it here.
        by_name: Whether a backend's own rules on the model's name chose, and nothing that the user forced or pinned.
        note: What came of the search by the chat template, where there was one.
    """

    request: Request
    query: Query
    installed: Installed
    addressed: tuple[Registered, ...]
    winner: Answered | None
    unavailable: tuple[tuple[Registered, Unavailable], ...]
    by_name: bool
    note: str = ""

    @property
    def fallback(self) -> bool:
        """Whether no backend covers the name, so that the tokenizer's chat template may tell more."""
        return self.request.renderer is None and (self.winner is None or self.winner[1].match is Match.FALLBACK)

    def replaced(self, detected: Detected) -> Selection:
        """The same after the search by the chat template: with another winner, or with the reason why there is none."""
        if detected.registered is None or detected.coverage is None:
            return replace(self, note=detected.reason)
        winner = detected.registered, replace(detected.coverage, reason=detected.reason)
        query = replace(self.query, renderer=detected.coverage.renderer)
        return replace(self, winner=winner, query=query, by_name=False, note=detected.reason)


def select(request: Request, tokenizer: Any, installed: Installed) -> Selection:
    """Ask the backends that the request addresses, and choose by their answers, by which no duplicate plugin may win."""
    _refuse_missing_backend(request, installed)
    check_tokenizer(tokenizer)
    query, addressed = request.query(tokenizer), request.addressed(installed.registered)
    winner, unavailable = best(addressed, query)
    duplicates = [plugin for plugin in installed.plugins if plugin.state == "duplicate"]
    for plugin in duplicates:
        rivals = request.addressed(plugin.registered)
        if winner is not None:
            rivals = [rival for rival in rivals if rival.backend.priority >= winner[0].backend.priority]
        if plugin.fault is not None and best(rivals, query)[0] is not None:
            raise plugin.fault
    for plugin in duplicates:
        warn_once(str(plugin.error), key=(plugin.name, plugin.distribution, plugin.version))
    by_rule = winner is not None and winner[1].match in (Match.FAMILY, Match.EXACT)
    by_name = by_rule and request.renderer is None and request.pin is None
    return Selection(request, query, installed, tuple(addressed), winner, tuple(unavailable), by_name)


def detected(selection: Selection) -> Selection:
    """The selection after the search for a renderer by the tokenizer's chat template, where no backend covers the name."""
    request, query, winner = selection.request, selection.query, selection.winner
    forced = request.backend is not None and winner is not None and winner[1].by_template
    if not selection.fallback or not request.options["detect"] or forced or query.tokenizer is None:
        return selection
    given = {"query": query, "backends": selection.addressed}
    return selection.installed.first_answer("rllm_renderer_detect", selection.replaced, **given) or selection


def best(backends: Iterable[Registered], query: Query) -> tuple[Answered | None, list[tuple[Registered, Unavailable]]]:
    """The winner of backends in order of priority, and who would serve the model if it could; a backend whose ``covers`` fails
    is among those."""
    unavailable: list[tuple[Registered, Unavailable]] = []
    for _, level in groupby(backends, key=lambda registered: registered.backend.priority):
        covering: list[Answered] = []
        for registered in level:
            try:
                answer = ask(registered, query)
            except PluginError as error:
                if strict():
                    raise
                answer = Unavailable(str(error).splitlines()[0], error.fix or "")
            if isinstance(answer, Coverage):
                covering.append((registered, answer))
            elif answer is not None:
                unavailable.append((registered, answer))
        if covering:
            return _best_of(covering, query.model), unavailable
    return None, unavailable


def _best_of(covering: list[Answered], model: str) -> Answered:
    top = max(coverage.match for _, coverage in covering)
    equal = [answered for answered in covering if answered[1].match == top]
    distributions = sorted({registered.distribution for registered, _ in equal})
    if len(distributions) > 1:
        names = sorted(registered.backend.name for registered, _ in equal)
        raise AmbiguousBackendError(
            f"backends {' and '.join(map(repr, names))} of {' and '.join(distributions)} claim {model!r} with the same "
            f"priority and match ({top.name.lower()})",
            fix=" or ".join(f"backend={name!r}" for name in names),
            backends=tuple(names),
        )
    return equal[0]


def _refuse_missing_backend(request: Request, installed: Installed) -> None:
    """Check that the backend which the user or a pin named is there."""
    name, known = request.backend, sorted(registered.backend.name for registered in installed.registered)
    if name is None or name in known:
        return
    faults = [plugin.fault for plugin in installed.plugins if plugin.fault and name in (plugin.name, *plugin.backends)]
    if faults:
        error = BackendUnavailableError(f"backend {name!r} was asked for, but {faults[-1]}")
        error.__cause__ = faults[-1].__cause__ or faults[-1]
    elif name in KNOWN_PLUGINS:
        state, fix = absent(KNOWN_PLUGINS[name])
        said = "isn't installed" if state == "not installed" else f"has {state}"
        error = BackendUnavailableError(f"backend {name!r} {said}", fix=fix)
    else:
        error = BackendUnavailableError(f"backend {name!r} isn't installed", fix=f"installed are {', '.join(known) or 'none'}")
    raise error if request.pin is None else pin_is_gone(request.pin, error)


def pin_is_gone(pin: Resolution, error: RendererError) -> PinMismatchError:
    why = str(error).splitlines()[0]
    return pin_mismatch(pin, [f"{pin.backend}:{pin.renderer} of {pin.plugin or 'a plugin'} was pinned, and {why}"])


def pin_mismatch(pin: Resolution, differences: Sequence[str]) -> PinMismatchError:
    """The error about a pin that other things are installed for, a line for each."""
    pinned = (pin.plugin, *(f"{name}=={version}" for name, version in pin.upstream.items()))
    return PinMismatchError(
        "\n  ".join([f"the pinned resolution of {pin.model!r} can't be reproduced here", *differences]),
        fix=f"install what was pinned ({' '.join(filter(None, pinned))}), or write a new pin: rllm-renderer pin MODEL",
        differences=tuple(differences),
    )
