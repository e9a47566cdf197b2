"""The backend: which models it covers, and how a renderer is made. Light: ``create`` imports the rest."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import ClassVar

from packaging.version import Version

from rllm_renderer_core.plugin import Backend, Coverage, Match, Query, Unavailable
from rllm_renderer_core.plugin.discovery import installed_version
from rllm_renderer_core.types import Renderer

from .families import BY_MODEL, BY_NAME, FAMILIES, Family

UPSTREAM = "tml-renderers"
OLDEST = Version("0.2.1")
"""The first version that the rows of the table were made for: with 0.2.0, 9 of 16 renderers differ from the templates."""

_HARMONY = (
    "the reference is harmony, which serves: no quotation marks on results, <|constrain|> in calls, reasoning before calls"
)
_NO_TOOLS = {"tools": "the template ignores declared tools, which would drop them: refused"}
DEVIATIONS: Mapping[str, Mapping[str, str]] = {
    "GptOss": {"calls": _HARMONY, "results": _HARMONY},
    **dict.fromkeys(("DeepSeekV3", "DeepSeekR1", "DeepSeekV31"), _NO_TOOLS),
}
"""Where a renderer differs from the model's chat template on purpose: probes or their tags, and why."""


class TmlBackend(Backend):
    """The models that ``tml_renderers`` has a class for, by their exact names."""

    name: ClassVar[str] = "tml"
    priority: ClassVar[int] = 45
    options: ClassVar[frozenset[str]] = frozenset({"thinking", "chat_template_kwargs"})
    upstream: ClassVar[tuple[str, ...]] = (UPSTREAM, "rllm-renderer-template")

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        """By the renderer's name where the user gave one, else by the model's exact name."""
        named = query.renderer is not None
        family = BY_NAME.get(query.renderer or "") if named else BY_MODEL.get(query.model)
        if family is None:
            return None
        unavailable = _unavailable()
        if unavailable is not None:
            return unavailable
        if not named and not family.compared:
            return Unavailable(
                f"tml_renderers has {family.upstream}, whose ids were never compared with the model's official template here",
                f"renderer={family.name!r} takes it all the same; resolve then compares it with the tokenizer's chat template",
            )
        if named:
            return _coverage(query, family, Match.NAMED, "named by the user")
        return _coverage(query, family, Match.EXACT, f"rendered by tml_renderers' {family.upstream}")

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """Upstream's renderer, behind the adapter.

        Raises:
            OptionError: For an option, a template variable or a value that upstream doesn't have.
            TokenizerError: ``query.tokenizer`` isn't the vocabulary that upstream has inside.
            RendererError: This tml-renderers has no such class.
        """
        from .factory import create_renderer

        return create_renderer(query, coverage)

    def renderer_names(self) -> Iterable[str]:
        return sorted(BY_NAME)

    def models(self) -> Iterable[str]:
        return BY_MODEL

    def candidates(self, query: Query) -> Iterable[Coverage]:
        """Every renderer: those of another vocabulary are refused by ``create`` before they render."""
        if _unavailable() is not None:
            return ()
        return [_coverage(query, family, Match.PARITY, "its ids equal the tokenizer's template") for family in FAMILIES]

    def deviations(self, coverage: Coverage) -> Mapping[str, str]:
        return DEVIATIONS.get(coverage.renderer, {})


def _unavailable() -> Unavailable | None:
    """Why upstream can't be used here at all."""
    for package, distribution in (("tml_renderers", UPSTREAM), ("torch", "torch")):
        if importlib.util.find_spec(package) is None:
            return Unavailable(f"{distribution} isn't installed", f"pip install {distribution}")
    version = installed_version(UPSTREAM)
    if version and Version(version) < OLDEST:
        return Unavailable(
            f"{UPSTREAM} {version} writes reasoning, calls and harmony's header otherwise than the official templates do, "
            f"and is corrected here from {OLDEST} on",
            f"pip install '{UPSTREAM}>={OLDEST}'",
        )
    return None


def _coverage(query: Query, family: Family, match: Match, reason: str) -> Coverage:
    data = None
    if family.dated is not None:
        data = {family.dated: query.date}
    return Coverage(renderer=family.name, match=match, has_bridge=True, reason=reason, data=data, dated=data is not None)
