"""The resolver: asks the installed backends for the best match, and can always say why.

A forced backend or renderer first; else the highest priority among those that cover the model, the asking stopping there;
equal priority is decided by match, within one distribution by its own order; still equal from two distributions is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import __version__
from .contract import ResolvedRenderer
from .discovery import KNOWN_PLUGINS, Plugin, Registered, installed_version, load_backends, warn_once
from .errors import (
    AmbiguousBackendError,
    BackendUnavailableError,
    CreateError,
    NoBackendError,
    NoBridgeError,
    OptionError,
    RendererError,
)
from .plugin import Coverage, Match, Query, Unavailable
from .resolution import Resolution
from .vocabulary import load_tokenizer

SPELLINGS = ("renderer", "renderer_family", "renderer_name")
RETENTIONS = ("all", "tool_cycle")
DEFAULTS: Mapping[str, Any] = {
    "thinking": None,
    "thinking_retention": "all",
    "template_bridge": False,
    "chat_template_kwargs": None,
    "image_processor": None,
    "marker_text": "allow",
}
"""Options that ids may depend on, with their defaults."""


@dataclass(frozen=True)
class Verdict:
    """One backend's answer. ``verdict`` is ``"covers"``, ``"unavailable"``, ``"no match"``, ``"broken"`` or ``"not installed"``."""

    backend: str
    distribution: str
    version: str
    priority: int | None
    verdict: str
    renderer: str = ""
    match: str = ""
    has_bridge: bool = False
    reason: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Explanation:
    """Every backend's verdict on a model, and the winner's name (``None`` where there is none); ``str()`` is a table."""

    model: str
    winner: str | None
    verdicts: tuple[Verdict, ...]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"model": self.model, "winner": self.winner, "reason": self.reason, "verdicts": [asdict(v) for v in self.verdicts]}

    def __str__(self) -> str:
        rows = [("", "backend", "priority", "verdict", "renderer", "bridge", "reason")]
        for each in self.verdicts:
            covers = each.verdict == "covers"
            rows.append(
                (
                    "*" if each.backend == self.winner else "",
                    each.backend,
                    "" if each.priority is None else str(each.priority),
                    f"{each.verdict} ({each.match})" if covers else each.verdict,
                    each.renderer or "-",
                    ("yes" if each.has_bridge else "no") if covers else "-",
                    each.reason + (f"; fix: {each.fix}" if each.fix else ""),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() for row in rows]
        return "\n".join([f"{self.model or '(no name)'}: {self.reason}", *lines])


def resolve(
    model: str | None = None,
    tokenizer: Any = None,
    *,
    backend: str | None = None,
    renderer: str | None = None,
    renderer_family: str | None = None,
    renderer_name: str | None = None,
    thinking: bool | None = None,
    thinking_retention: str = "all",
    template_bridge: bool = False,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    image_processor: Any = None,
    marker_text: str = "allow",
    require_bridge: bool = False,
) -> ResolvedRenderer:
    """The best renderer for a model among all installed backends.

    Args:
        model: The model's name; ``None`` means the tokenizer's ``name_or_path``.
        tokenizer: The model's tokenizer, the only one used; loaded with transformers where it isn't passed.
        backend: Take this backend (also ``RLLM_RENDERER_BACKEND``; the argument counts more).
        renderer: Take the renderer of this name, whatever the model is called.
        renderer_family, renderer_name: rLLM's spellings of ``renderer``, each for the backends that declare it.
        thinking: Whether the model thinks; ``None`` is the model's own default.
        thinking_retention: ``"all"`` keeps sampled reasoning verbatim across new queries; ``"tool_cycle"`` declines the bridge
            there, as a template that strips old reasoning would.
        template_bridge: Let the chat-template backend bridge where an experiment proves the bridge.
        chat_template_kwargs: Variables of the model's template.
        image_processor: For vision renderers.
        marker_text: ``"allow"`` renders control tokens written in message text as the template does; ``"error"`` refuses them.
        require_bridge: Refuse a winner that can't bridge.

    Raises:
        NoBackendError: Nothing covers the model; or its subclasses ``NoBridgeError`` and ``BackendUnavailableError``.
        AmbiguousBackendError: Two distributions claim it equally.
        OptionError: The winner can't honour an option.
        CreateError: The winner failed to build its renderer.
        TokenizerError: No tokenizer was passed and none can be loaded.
    """
    options = _options(locals())
    request = _request(model, tokenizer, backend, renderer, renderer_family, renderer_name, options, require_bridge)
    chosen = _choose(request, tokenizer)
    if tokenizer is None:
        tokenizer = load_tokenizer(chosen.query.model)
        chosen = _choose(request, tokenizer)
    resolution = _record(chosen, options)
    for hint in resolution.hints:
        warn_once(f"{chosen.query.model}: {resolution.backend} serves it with less than could be: {hint}")
    try:
        return ResolvedRenderer(
            chosen.registered.backend, chosen.query, chosen.coverage, resolution, reserved=marker_text == "error"
        )
    except RendererError:
        raise
    except Exception as error:
        rest = [r for r in chosen.all if r is not chosen.registered]
        following = _first(rest, chosen.query, None)
        name = chosen.registered.backend.name
        raise CreateError(
            f"backend {name!r} of {chosen.registered.distribution} covers {chosen.query.model!r} but can't build "
            f"{chosen.coverage.renderer!r}: {type(error).__name__}: {error}",
            fix=f"repair it, or take what would come next: backend={following[0].backend.name!r}" if following else "repair it",
        ) from error


def select_backend(
    model: str | None = None,
    tokenizer: Any = None,
    *,
    backend: str | None = None,
    renderer: str | None = None,
    renderer_family: str | None = None,
    renderer_name: str | None = None,
    thinking: bool | None = None,
    thinking_retention: str = "all",
    template_bridge: bool = False,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    image_processor: Any = None,
    marker_text: str = "allow",
    require_bridge: bool = False,
) -> Resolution:
    """The :class:`Resolution` that :func:`resolve` would come to by names, building no renderer and loading no tokenizer."""
    options = _options(locals())
    request = _request(model, tokenizer, backend, renderer, renderer_family, renderer_name, options, require_bridge)
    return _record(_choose(request, tokenizer), options)


def explain(
    model: str | None = None,
    tokenizer: Any = None,
    *,
    backend: str | None = None,
    renderer: str | None = None,
    renderer_family: str | None = None,
    renderer_name: str | None = None,
    thinking: bool | None = None,
    thinking_retention: str = "all",
    template_bridge: bool = False,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    image_processor: Any = None,
    marker_text: str = "allow",
    require_bridge: bool = False,
) -> Explanation:
    """Asks every backend, winner or not, and says what each answered."""
    options = _options(locals())
    request = _request(model, tokenizer, backend, renderer, renderer_family, renderer_name, options, require_bridge)
    try:
        winner: str | None = _choose(request, tokenizer).registered.backend.name
        reason = f"{winner} wins"
    except RendererError as error:
        winner, reason = None, str(error).splitlines()[0]
    registered, found = load_backends()
    return _explanation(request, tokenizer, registered, found, winner, reason)


# What is asked


@dataclass(frozen=True)
class _Request:
    model: str
    backend: str | None
    renderer: str | None
    spelling: str
    options: Mapping[str, Any]
    require_bridge: bool

    def query(self, tokenizer: Any) -> Query:
        wanted = {key: value for key, value in self.options.items() if key != "marker_text"}
        return Query(self.model, tokenizer, self.renderer, **{**wanted, "chat_template_kwargs": dict(wanted["chat_template_kwargs"] or {})})

    def addresses(self, registered: Registered) -> bool:
        backend = registered.backend
        if self.backend is not None and backend.name != self.backend:
            return False
        return self.spelling == "renderer" or self.spelling in backend.spellings


@dataclass(frozen=True)
class _Chosen:
    registered: Registered
    coverage: Coverage
    query: Query
    request: _Request
    found: Sequence[Plugin]
    all: Sequence[Registered]
    unavailable: Sequence[tuple[Registered, Unavailable]]


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: given[name] for name in DEFAULTS}
    if options["thinking"] not in (None, True, False):
        raise OptionError(f"thinking must be True, False or None, not {options['thinking']!r}", option="thinking")
    if options["thinking_retention"] not in RETENTIONS:
        raise OptionError(
            f"thinking_retention must be one of {', '.join(RETENTIONS)}, not {options['thinking_retention']!r}",
            option="thinking_retention",
        )
    if options["marker_text"] not in ("allow", "error"):
        raise OptionError(f"marker_text must be 'allow' or 'error', not {options['marker_text']!r}", option="marker_text")
    return options


def _request(
    model: str | None,
    tokenizer: Any,
    backend: str | None,
    renderer: str | None,
    family: str | None,
    name: str | None,
    options: Mapping[str, Any],
    require_bridge: bool,
) -> _Request:
    if model is None:
        model = str(getattr(tokenizer, "name_or_path", "") or "")
    if not model and tokenizer is None:
        raise NoBackendError("neither a model nor a tokenizer was given", fix="pass model=, tokenizer= or both")
    asked = {spelling: value for spelling, value in zip(SPELLINGS, (renderer, family, name)) if value is not None}
    if len(asked) > 1:
        raise OptionError(f"{' and '.join(asked)} name a renderer twice", fix="pass one of them", option=next(iter(asked)))
    spelling, forced = next(iter(asked.items()), ("renderer", None))
    return _Request(
        model, backend or os.environ.get("RLLM_RENDERER_BACKEND") or None, forced, spelling, options, require_bridge
    )


# Who serves it


def _choose(request: _Request, tokenizer: Any) -> _Chosen:
    registered, found = load_backends()
    query = request.query(tokenizer)
    if request.backend is not None and request.backend not in {r.backend.name for r in registered}:
        raise _missing_backend(request, registered, found)
    addressed = [each for each in registered if request.addresses(each)]
    unavailable: list[tuple[Registered, Unavailable]] = []
    first = _first(addressed, query, unavailable)
    if first is None:
        raise _nothing_covers(request, tokenizer, registered, found, addressed, unavailable)
    chosen = _Chosen(*first, query, request, found, registered, unavailable)
    _refuse_options(chosen)
    if request.require_bridge and not first[1].has_bridge:
        name = first[0].backend.name
        table = _explanation(request, tokenizer, registered, found, name, f"{name} wins, without a bridge")
        raise NoBridgeError(
            f"require_bridge: the best match for {request.model!r} is {name}:{first[1].renderer}, which has no bridge\n{table}",
            fix=_bridge_fix(table, name),
            explanation=table,
        )
    return chosen


def _first(
    registered: Iterable[Registered], query: Query, unavailable: list[tuple[Registered, Unavailable]] | None
) -> tuple[Registered, Coverage] | None:
    """The winner: asks from the top, one level of priority at a time, and stops at a level where somebody covers."""
    levels: dict[int, list[Registered]] = {}
    for each in registered:
        levels.setdefault(each.backend.priority, []).append(each)
    for priority in sorted(levels, reverse=True):
        covering: list[tuple[Registered, Coverage]] = []
        for each in levels[priority]:
            answer = _ask(each, query)
            if isinstance(answer, Coverage):
                covering.append((each, answer))
            elif isinstance(answer, Unavailable) and unavailable is not None:
                unavailable.append((each, answer))
        if covering:
            return _best(covering, query.model)
    return None


def _best(covering: list[tuple[Registered, Coverage]], model: str) -> tuple[Registered, Coverage]:
    top = max(coverage.match for _, coverage in covering)
    best = [(each, coverage) for each, coverage in covering if coverage.match == top]
    distributions = sorted({each.distribution for each, _ in best})
    if len(distributions) > 1:
        names = sorted(each.backend.name for each, _ in best)
        raise AmbiguousBackendError(
            f"backends {' and '.join(map(repr, names))} of {' and '.join(distributions)} claim {model!r} with the same priority "
            f"and match ({top.name.lower()})",
            fix=" or ".join(f"backend={name!r}" for name in names),
            backends=tuple(names),
        )
    return min(best, key=lambda pair: (pair[0].plugin, pair[0].order))


def _ask(registered: Registered, query: Query) -> Coverage | Unavailable | None:
    answer = registered.backend.covers(query)
    if answer is None or isinstance(answer, (Coverage, Unavailable)):
        return answer
    raise TypeError(f"covers of backend {registered.backend.name!r} must return Coverage, Unavailable or None, not {answer!r}")


def _refuse_options(chosen: _Chosen) -> None:
    backend = chosen.registered.backend
    for option in ("thinking", "template_bridge", "chat_template_kwargs", "image_processor"):
        value = getattr(chosen.query, option)
        if value in (None, False, {}) and not (option == "thinking" and value is False):
            continue
        if option in backend.options or (option == "template_bridge" and chosen.coverage.has_bridge):
            continue
        raise OptionError(
            f"backend {backend.name!r} can't honour {option}={value!r}",
            fix=f"leave {option} out, or choose another backend=",
            option=option,
            backend=backend.name,
        )


# What is said about it


def _record(chosen: _Chosen, options: Mapping[str, Any]) -> Resolution:
    backend, coverage = chosen.registered.backend, chosen.coverage
    set_options: dict[str, Any] = {key: value for key, value in options.items() if value != DEFAULTS[key] and value != {}}
    if "image_processor" in set_options:
        set_options["image_processor"] = type(set_options["image_processor"]).__name__
    upstream = {name: installed_version(name) or "not installed" for name in backend.upstream}
    hints = [f"{each.backend.name}: {answer.reason}; {answer.fix}" for each, answer in chosen.unavailable]
    if coverage.match <= Match.PARITY and chosen.request.backend is None:
        hints += [str(p.error) for p in chosen.found if p.error is not None and p.state != "disabled"]
        missing = _not_installed(chosen.all, chosen.found)
        if missing:
            hints.append("not installed: " + ", ".join(f"{name} (pip install {dist})" for name, dist in missing))
    return Resolution(
        model=chosen.query.model,
        backend=backend.name,
        renderer=coverage.renderer,
        match=coverage.match.name.lower(),
        has_bridge=coverage.has_bridge,
        options=set_options,
        plugin=f"{chosen.registered.distribution} {chosen.registered.version}",
        core=__version__,
        upstream=upstream,
        reason=coverage.reason,
        hints=tuple(hints),
    )


def _not_installed(registered: Sequence[Registered], found: Sequence[Plugin]) -> list[tuple[str, str]]:
    names = {each.backend.name for each in registered} | {plugin.name for plugin in found}
    present = {plugin.distribution for plugin in found}
    return [(name, dist) for name, dist in KNOWN_PLUGINS.items() if name not in names and dist not in present]


def _explanation(
    request: _Request,
    tokenizer: Any,
    registered: Sequence[Registered],
    found: Sequence[Plugin],
    winner: str | None,
    reason: str,
) -> Explanation:
    query = request.query(tokenizer)
    verdicts = [_verdict(each, query) for each in sorted(registered, key=lambda r: (-r.backend.priority, r.backend.name))]
    for plugin in found:
        if plugin.error is not None:
            text, fix = str(plugin.error).splitlines()[0], plugin.error.fix or ""
            verdicts.append(Verdict(plugin.name, plugin.distribution, plugin.version, None, plugin.state, reason=text, fix=fix))
    for name, dist in _not_installed(registered, found):
        verdicts.append(Verdict(name, dist, "", None, "not installed", fix=f"pip install {dist}"))
    return Explanation(request.model, winner, tuple(verdicts), reason)


def _verdict(each: Registered, query: Query) -> Verdict:
    base = (each.backend.name, each.distribution, each.version, each.backend.priority)
    try:
        answer = _ask(each, query)
    except Exception as error:
        return Verdict(*base, "broken", reason=f"covers raised {type(error).__name__}: {error}")
    if isinstance(answer, Coverage):
        match = answer.match.name.lower()
        return Verdict(*base, "covers", answer.renderer, match, answer.has_bridge, answer.reason)
    if isinstance(answer, Unavailable):
        return Verdict(*base, "unavailable", reason=answer.reason, fix=answer.fix)
    return Verdict(*base, "no match")


def _bridge_fix(table: Explanation, winner: str) -> str:
    if winner == "chat-template":
        names = [v.fix for v in table.verdicts if v.verdict in ("unavailable", "not installed", "broken") and v.fix]
        return "; ".join(["name a renderer with renderer=, or template_bridge=True", *names])
    return "choose another renderer= or backend="


def _missing_backend(request: _Request, registered: Sequence[Registered], found: Sequence[Plugin]) -> RendererError:
    name = str(request.backend)
    for plugin in found:
        if plugin.error is not None and name in (plugin.name, *plugin.backends):
            error = BackendUnavailableError(f"backend {name!r} was asked for, but {plugin.error}", fix=None)
            error.__cause__ = plugin.error.__cause__ or plugin.error
            return error
    known = ", ".join(sorted(each.backend.name for each in registered))
    fix = f"pip install {KNOWN_PLUGINS[name]}" if name in KNOWN_PLUGINS else f"installed are {known}"
    return BackendUnavailableError(f"backend {name!r} isn't installed", fix=fix)


def _nothing_covers(
    request: _Request,
    tokenizer: Any,
    registered: Sequence[Registered],
    found: Sequence[Plugin],
    addressed: Sequence[Registered],
    unavailable: Sequence[tuple[Registered, Unavailable]],
) -> RendererError:
    if request.backend is not None and unavailable:
        each, answer = unavailable[0]
        return BackendUnavailableError(f"backend {each.backend.name!r} can't serve {request.model!r}: {answer.reason}", fix=answer.fix)
    if request.renderer is not None:
        known = "; ".join(
            f"{each.backend.name}: {', '.join(sorted(each.backend.renderer_names()))}" for each in addressed
        )
        what = f"{request.spelling}={request.renderer!r}"
        if unavailable:
            each, answer = unavailable[0]
            return BackendUnavailableError(f"{what} of backend {each.backend.name!r}: {answer.reason}", fix=answer.fix)
        if not addressed:
            missing = ", ".join(f"pip install {dist}" for _, dist in _not_installed(registered, found))
            return NoBackendError(f"no installed backend is addressed by {what}", fix=missing or None)
        return NoBackendError(f"no backend has a renderer for {what}", fix=f"known are {known}")
    table = _explanation(request, tokenizer, registered, found, None, "no backend covers it")
    return NoBackendError(
        f"no backend covers {request.model!r}\n{table}",
        fix="name a renderer with renderer=, or install a plugin that covers it",
        explanation=table,
    )
