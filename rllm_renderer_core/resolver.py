"""The resolver: asks the installed backends for the best match, and can always say why.

A forced backend or renderer first; else the highest priority among those that cover the model, the asking stopping there;
equal priority is decided by match, within one distribution by its own order; still equal from two distributions is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import __version__
from .learned.renderer import NAME as TEMPLATE
from .renderer import ResolvedRenderer
from .discovery import Plugin, Registered, cause_of, installed_version, load_backends, strict, warn_once
from .errors import (
    AmbiguousBackendError,
    CreateError,
    NoBridgeError,
    OptionError,
    PinMismatchError,
    PluginError,
    RendererError,
)
from .explanation import Explanation, ask, explanation, not_installed
from .plugin import Coverage, Match, Query, Unavailable
from .refusals import bridge_fix, missing_backend, nothing_covers
from .request import Options, Request, recorded, refused_option
from .resolution import Resolution
from .vocabulary import chat_template, load_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


def resolve(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> ResolvedRenderer:
    """The best renderer for a model among all installed backends.

    Args:
        model: The model's name; ``None`` means the tokenizer's ``name_or_path``.
        tokenizer: The model's tokenizer, the only one used; loaded with transformers where it isn't passed.
        options: See :class:`~rllm_renderer_core.request.Options`.

    Raises:
        NoBackendError: Nothing covers the model; or its subclasses ``NoBridgeError`` and ``BackendUnavailableError``.
        AmbiguousBackendError: Two distributions claim it equally.
        OptionError: A value that an option doesn't take, or an option that the winner can't honour.
        CreateError: The winner failed to build its renderer.
        ParityError: ``parity="error"``, and the renderer differs from the tokenizer's chat template.
        PinMismatchError: The pinned resolution can't be reproduced here.
        TokenizerError: No tokenizer was passed and none can be loaded.
    """
    request = Request.make(model, tokenizer, options)
    if tokenizer is None:
        _choose(request, None, early=True)  # what fails by names alone fails before anything is loaded
        tokenizer = load_tokenizer(request.model)
    chosen = _choose(request, tokenizer, detecting=request.detect)
    resolution = _record(chosen)
    for hint in resolution.hints:
        warn_once(f"{request.model}: {resolution.backend} serves it with less than could be: {hint}")
    backend = chosen.registered.backend
    try:
        renderer = ResolvedRenderer(
            backend, chosen.query, chosen.coverage, resolution, reserved=request.options["marker_text"] == "error"
        )
    except OptionError:
        raise
    except Exception as error:
        raised = _create_error(chosen, error)
        if raised is error:
            raise
        raise raised from error
    compare = request.parity != "off" and chosen.coverage.match is not Match.PARITY and backend.name != TEMPLATE
    if compare and chat_template(tokenizer) is not None:
        from .parity.enforcement import enforce

        enforce(renderer, chosen.query, request.parity, chosen.all)
    return renderer


def _create_error(chosen: _Chosen, error: Exception) -> RendererError:
    """What the winner's ``create`` raised, with what would have come next: nothing is taken in its place silently."""
    backend, model = chosen.registered.backend, chosen.request.model
    try:
        following = _first([each for each in chosen.all if each is not chosen.registered], chosen.query, None)
    except RendererError:  # ambiguous, or broken too
        following = None
    instead = f"take what would come next: backend={following[0].backend.name!r}" if following else ""
    if isinstance(error, RendererError):
        if instead:
            error.args = (f"{error}\n  or {instead}", *error.args[1:])
        return error
    repair = f"pip install {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else "repair it"
    return CreateError(
        f"backend {backend.name!r} of {chosen.registered.distribution} covers {model!r} but can't build "
        f"{chosen.coverage.renderer!r}: {cause_of(error)}",
        fix=", or ".join(filter(None, (repair, instead))),
    )


def select_backend(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Resolution:
    """The :class:`Resolution` that :func:`resolve` would come to by names, building no renderer and loading no tokenizer.

    Where no backend covers the name, ``resolve`` with a tokenizer may find more than this: see the option ``detect``.
    """
    return _record(_choose(Request.make(model, tokenizer, options), tokenizer))


def explain(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Explanation:
    """Asks every backend, winner or not, and says what each answered; with a tokenizer, what its chat template decided too."""
    request = Request.make(model, tokenizer, options)
    winner: str | None = None
    detected = None
    try:
        chosen = _choose(request, tokenizer, detecting=request.detect)
        winner = chosen.registered.backend.name
        detected = chosen.coverage if chosen.coverage.match is Match.PARITY else None
        reason = f"{winner} wins" + (f"; {chosen.note}" if chosen.note and detected is None else "")
    except RendererError as error:
        reason = str(error).splitlines()[0]
    registered, found = load_backends()
    return explanation(request, tokenizer, registered, found, winner, reason, detected)


@dataclass(frozen=True)
class _Chosen:
    registered: Registered
    coverage: Coverage
    query: Query
    request: Request
    found: Sequence[Plugin]
    all: Sequence[Registered]
    unavailable: Sequence[tuple[Registered, Unavailable]]
    note: str = ""  # what came of the search by the chat template, where there was one


# Who serves it


def _choose(request: Request, tokenizer: Any, *, early: bool = False, detecting: bool = False) -> _Chosen:
    """The winner. ``early`` where a tokenizer comes later, which may find more; ``detecting`` where this one may."""
    registered, found = load_backends()
    query = request.query(tokenizer)
    if request.backend is not None and request.backend not in {r.backend.name for r in registered}:
        raise missing_backend(request, registered, found)
    addressed = [each for each in registered if request.addresses(each)]
    unavailable: list[tuple[Registered, Unavailable]] = []
    first = _first(addressed, query, unavailable)
    fallback = request.renderer is None and (first is None or first[1].match is Match.FALLBACK)
    note = ""
    if fallback and detecting and tokenizer is not None and request.backend != TEMPLATE:
        from .parity.detection import detect

        detection = detect(addressed, query)
        note = detection.outcome
        if detection.winner is not None:
            first = detection.winner.registered, replace(detection.winner.coverage, reason=note)
            query = replace(query, renderer=first[1].renderer)
    if first is None:
        raise nothing_covers(request, tokenizer, registered, found, addressed, unavailable, note)
    chosen = _Chosen(*first, query, request, found, registered, unavailable, note)
    _refuse_options(chosen)
    if request.require_bridge and not first[1].has_bridge and not (early and fallback and request.detect):
        name = first[0].backend.name
        reason = f"{name} wins, without a bridge" + (f"; {note}" if note else "")
        table = explanation(request, tokenizer, registered, found, name, reason)
        fix = bridge_fix(table, name)
        if fallback and not detecting and request.detect:
            fix += "; or resolve with the tokenizer, whose chat template may tell the renderer"
        raise NoBridgeError(
            f"require_bridge: the best match for {request.model!r} is {name}:{first[1].renderer}, which has no bridge\n{table}",
            fix=fix,
            explanation=table,
        )
    return chosen


def _first(
    registered: Iterable[Registered], query: Query, unavailable: list[tuple[Registered, Unavailable]] | None
) -> tuple[Registered, Coverage] | None:
    """The winner: asks from the top, one level of priority at a time, and stops at a level where somebody covers.

    A backend whose ``covers`` fails is like a plugin that can't be loaded: said, and the others go on; or raised under
    ``RLLM_RENDERER_STRICT=1``.
    """
    levels: dict[int, list[Registered]] = {}
    for each in registered:
        levels.setdefault(each.backend.priority, []).append(each)
    for priority in sorted(levels, reverse=True):
        covering: list[tuple[Registered, Coverage]] = []
        for each in levels[priority]:
            try:
                answer = ask(each, query)
            except PluginError as error:
                if strict():
                    raise
                answer = Unavailable(str(error).splitlines()[0], error.fix or "")
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
            f"backends {' and '.join(map(repr, names))} of {' and '.join(distributions)} claim {model!r} with the same "
            f"priority and match ({top.name.lower()})",
            fix=" or ".join(f"backend={name!r}" for name in names),
            backends=tuple(names),
        )
    return min(best, key=lambda pair: (pair[0].plugin, pair[0].order))


def _refuse_options(chosen: _Chosen) -> None:
    backend = chosen.registered.backend
    refused = refused_option(backend, chosen.query, chosen.coverage)
    if refused is not None:
        option, value = refused
        raise OptionError(
            f"backend {backend.name!r} can't honour {option}={value!r}",
            fix=f"leave {option} out, or choose another backend=",
            option=option,
            backend=backend.name,
        )


# What is said about it


def _record(chosen: _Chosen) -> Resolution:
    backend, coverage = chosen.registered.backend, chosen.coverage
    upstream = {name: installed_version(name) or "not installed" for name in backend.upstream}
    hints = [f"{each.backend.name}: {answer.reason}; {answer.fix}" for each, answer in chosen.unavailable]
    if coverage.match is Match.FALLBACK and chosen.note:
        hints.append(chosen.note)
    if coverage.match is Match.FALLBACK and chosen.request.backend is None:
        hints += [str(p.error) for p in chosen.found if p.error is not None and p.state != "disabled"]
        missing = not_installed(chosen.all, chosen.found)
        if missing:
            hints.append("not installed: " + ", ".join(f"{name} (pip install {dist})" for name, dist in missing))
    resolution = Resolution(
        model=chosen.query.model,
        backend=backend.name,
        renderer=coverage.renderer,
        match=coverage.match.name.lower(),
        has_bridge=coverage.has_bridge,
        options=recorded(chosen.request.options),
        plugin=f"{chosen.registered.distribution} {chosen.registered.version}",
        core=__version__,
        upstream=upstream,
        reason=coverage.reason,
        hints=tuple(hints),
    )
    return resolution if chosen.request.pin is None else _as_pinned(resolution, chosen.request.pin)


def _as_pinned(resolution: Resolution, pin: Resolution) -> Resolution:
    """The resolution, if nothing but the way it was found differs from the pin."""
    resolution = replace(resolution, match=pin.match)
    differences = resolution.differences(pin)
    if differences:
        lines = "\n  ".join(differences)
        raise PinMismatchError(
            f"the pinned resolution of {pin.model!r} can't be reproduced here\n  {lines}",
            fix="install what was pinned, or write a new pin: rllm-renderer pin MODEL",
            differences=tuple(differences),
        )
    return resolution
