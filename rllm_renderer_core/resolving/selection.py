"""Who serves a model: asks the backends and chooses.

The highest priority among those that cover; equal priority is decided by match, within one distribution by its own order; still
equal from two distributions is an error. The asking stops at the level of priority where somebody covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import AmbiguousBackendError, PluginError
from ..plugin import Coverage, Detected, Match, Query, Registered, Unavailable
from ..plugin.answers import ask
from ..plugin.discovery import Installed, strict, warn_once
from .request import Request

Answered = tuple[Registered, Coverage]


@dataclass(frozen=True)
class Selection:
    """What came of asking the backends.

    Attributes:
        request: What was asked.
        query: What the backends were asked.
        installed: All that is installed.
        addressed: The backends that were asked, or would have been.
        winner: The best match with its coverage; ``None`` where nothing covers.
        unavailable: Backends that know the model and can't serve it here.
        note: What came of the search by the chat template, where there was one.
    """

    request: Request
    query: Query
    installed: Installed
    addressed: tuple[Registered, ...]
    winner: Answered | None
    unavailable: tuple[tuple[Registered, Unavailable], ...]
    note: str = ""

    @property
    def fallback(self) -> bool:
        """Whether no backend covers the name, so that the tokenizer's chat template may tell more."""
        return self.request.renderer is None and (self.winner is None or self.winner[1].match is Match.FALLBACK)

    @property
    def detectable(self) -> bool:
        """Whether a renderer is to be looked for by the tokenizer's chat template."""
        forced = self.request.backend is not None and self.winner is not None and self.winner[1].by_template
        return self.fallback and self.request.detect and not forced and self.query.tokenizer is not None

    def detected(self, found: Detected) -> Selection:
        """The same after the search: with another winner, or with the reason why there is none."""
        if found.registered is None or found.coverage is None:
            return replace(self, note=found.reason)
        winner = found.registered, replace(found.coverage, reason=found.reason)
        query = replace(self.query, renderer=found.coverage.renderer)
        return replace(self, winner=winner, query=query, note=found.reason)

    @property
    def by_name(self) -> bool:
        """Whether a backend's own rules on the model's name chose, and nothing that the user forced or pinned."""
        named = self.request.renderer is not None or self.request.pin is not None
        return not named and self.winner is not None and self.winner[1].match in (Match.FAMILY, Match.EXACT)

    def following(self) -> Registered | None:
        """The backend that would come next, if the winner weren't there."""
        others = [each for each in self.installed.registered if self.winner is None or each is not self.winner[0]]
        winner, _ = best(others, self.query)
        return None if winner is None else winner[0]


def select(request: Request, tokenizer: Any, installed: Installed) -> Selection:
    """Ask the backends that the request addresses, and choose.

    Raises:
        AmbiguousBackendError: Two distributions claim the model equally.
        DuplicatePluginError: A plugin whose name two distributions take would win, or might.
        PluginError: Under ``RLLM_RENDERER_STRICT=1``, a backend whose ``covers`` fails.
    """
    query = request.query(tokenizer)
    addressed = tuple(each for each in installed.registered if request.addresses(each))
    winner, unavailable = best(addressed, query)
    _refuse_duplicates(request, query, installed, winner)
    return Selection(request, query, installed, addressed, winner, tuple(unavailable))


def best(registered: Iterable[Registered], query: Query) -> tuple[Answered | None, list[tuple[Registered, Unavailable]]]:
    """The winner, and who would serve the model if it could; errors as ``select``.

    A backend whose ``covers`` fails is like a plugin that can't be loaded: said, and the others go on.
    """
    unavailable: list[tuple[Registered, Unavailable]] = []
    levels: dict[int, list[Registered]] = {}
    for each in registered:
        levels.setdefault(each.backend.priority, []).append(each)
    for priority in sorted(levels, reverse=True):
        covering: list[Answered] = []
        for each in levels[priority]:
            try:
                answer = ask(each, query)
            except PluginError as error:
                if strict():
                    raise
                answer = Unavailable(str(error).splitlines()[0], error.fix or "")
            if isinstance(answer, Coverage):
                covering.append((each, answer))
            elif isinstance(answer, Unavailable):
                unavailable.append((each, answer))
        if covering:
            return _best_of(covering, query.model), unavailable
    return None, unavailable


def _refuse_duplicates(request: Request, query: Query, installed: Installed, winner: Answered | None) -> None:
    """Raise for a plugin whose name is taken twice if it competes for this model; else only warn."""
    for each, error in installed.duplicated:
        competes = request.addresses(each) and (winner is None or each.backend.priority >= winner[0].backend.priority)
        try:
            if competes and isinstance(ask(each, query), Coverage):
                raise error
        except PluginError as raised:
            if raised is error:
                raise
    for plugin in installed.found:
        if plugin.state == "duplicate":
            warn_once(str(plugin.error), key=(plugin.name, plugin.distribution, plugin.version))


def _best_of(covering: list[Answered], model: str) -> Answered:
    """Of backends of equal priority."""
    top = max(coverage.match for _, coverage in covering)
    same = [(each, coverage) for each, coverage in covering if coverage.match == top]
    distributions = sorted({each.distribution for each, _ in same})
    if len(distributions) > 1:
        names = sorted(each.backend.name for each, _ in same)
        raise AmbiguousBackendError(
            f"backends {' and '.join(map(repr, names))} of {' and '.join(distributions)} claim {model!r} with the same "
            f"priority and match ({top.name.lower()})",
            fix=" or ".join(f"backend={name!r}" for name in names),
            backends=tuple(names),
        )
    return min(same, key=lambda pair: (pair[0].plugin, pair[0].order))
