"""From a model's name to its renderer: request, selection, detection, record, creation, check, each entered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import CreateError, OptionError, ParityError, RendererError
from ..guards.tokenizer_works import lacking
from ..normal_form.tokenizer import chat_template, load_tokenizer
from ..plugin import Detected, Judgement, Match
from ..plugin.discovery import cause_of, installed_version, load_backends, warn_once
from ..plugin.hooks import checked
from ..renderer.resolution import Resolution
from ..renderer.resolved import ResolvedRenderer
from ..renderer.sources import source_digests
from ..version import __version__
from .request import Options, Request
from .selection import Answered, Selection, best, detected, pin_mismatch, select
from .verdicts import Explanation, explanation, refuse_unparsed_tools, usable

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


def resolve(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> ResolvedRenderer:
    """The best renderer for a model among all installed backends.

    Args:
        model: The model's name; ``None`` means the tokenizer's ``name_or_path``.
        tokenizer: The model's tokenizer, the only one used; loaded with transformers where it isn't passed.
        options: See ``Options``.

    Raises:
        NoBackendError: Nothing covers the model; or its subclasses ``NoBridgeError`` and ``BackendUnavailableError``.
        AmbiguousBackendError: Two distributions claim it equally.
        OptionError: A value that an option doesn't take, or an option that the winner can't honour.
        CreateError: The winner failed to build its renderer.
        ParityError: ``parity="error"``, and the renderer differs from the tokenizer's chat template.
        PinMismatchError: The pinned resolution can't be reproduced here.
        TokenizerError: No tokenizer was passed and none can be loaded, or it doesn't work: see ``guards.tokenizer_works``.
    """
    request, installed = Request.make(model, tokenizer, options), load_backends()
    if tokenizer is None:  # what fails by names alone fails before anything is loaded
        usable(select(request, None, installed), early=True)
        tokenizer = load_tokenizer(request.model)
    selection = detected(select(request, tokenizer, installed))
    renderer = _created(selection)
    proven = _judged(renderer, selection)
    if proven is not selection:
        renderer = _created(proven)
    if request.options["require_tools"]:
        refuse_unparsed_tools(renderer)
    _warn(renderer.resolution)
    return renderer


def select_backend(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Resolution:
    """The ``Resolution`` that ``resolve`` would come to by names, building no renderer and loading no tokenizer.

    Where no backend covers the name, or the renderer by that name differs from the tokenizer's chat template, ``resolve`` with
    a tokenizer may find more than this: see the options ``detect`` and ``parity``.
    """
    selection = select(Request.make(model, tokenizer, options), tokenizer, load_backends())
    resolution = _recorded(selection, usable(selection))
    _warn(resolution)
    return resolution


def explain(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Explanation:
    """Asks every backend, winner or not, and says what each answered; with a tokenizer, what its chat template decided too."""
    request, installed = Request.make(model, tokenizer, options), load_backends()
    winner: Answered | None = None
    try:
        selection = detected(select(request, tokenizer, installed))
        winner = usable(selection)
        faults: list[str] = []
        if selection.by_name and tokenizer is not None:
            renderer = _created(selection)
            faults = _judge(renderer, selection, lambda judgement: [*map(str, judgement.faults())]) or []
            selection = _judged(renderer, selection, enforced=False)
            winner = usable(selection)
        note = "" if winner[1].match is Match.PARITY else selection.note
        reason = "; ".join(filter(None, [f"{winner[0].backend.name} wins", note, *faults]))
    except RendererError as error:
        reason = str(error).splitlines()[0]
    return explanation(request, tokenizer, installed, winner, reason)


def _recorded(selection: Selection, winner: Answered) -> Resolution:
    """The record of what was chosen; equal to the pin, where there is one."""
    (registered, coverage), request, installed = winner, selection.request, selection.installed
    backend = registered.backend
    hints = [f"{other.backend.name}: {answer.reason}; {answer.fix}" for other, answer in selection.unavailable]
    if coverage.match is Match.PARITY and coverage.has_bridge:
        hints = []  # proven, with a bridge: nothing would serve it better
    if coverage.match is Match.FALLBACK and selection.note:
        hints.append(selection.note)
    if coverage.match is Match.FALLBACK and request.backend is None:
        hints += [str(plugin.error) for plugin in installed.plugins if plugin.fault is not None and plugin.state != "disabled"]
        if missing := ", ".join(name for name, _ in installed.missing()):
            hints.append(f"not installed, and may know this model: {missing}; explain() has the commands")
    packages = {registered.distribution: type(backend).__module__.partition(".")[0]}
    packages |= {name: backend.sources.get(name) or name.replace("-", "_") for name in backend.upstream}
    resolution = Resolution(
        model=selection.query.model,
        backend=backend.name,
        renderer=coverage.renderer,
        match=coverage.match.name.lower(),
        has_bridge=coverage.has_bridge,
        options={**request.recorded, **({"date": selection.query.date} if coverage.dated else {})},
        plugin=f"{registered.distribution} {registered.version}",
        core=__version__,
        upstream={name: installed_version(name) or "not installed" for name in backend.upstream},
        sources=source_digests(tuple(packages.items())),
        reason=coverage.reason,
        hints=tuple(hints),
    )
    return resolution if request.pin is None else _as_pinned(resolution, request.pin)


def _as_pinned(resolution: Resolution, pin: Resolution) -> Resolution:
    """The resolution, if nothing but its ``match`` differs from the pin, and what it writes, as long as that isn't known."""
    resolution = replace(resolution, match=pin.match)
    differences = replace(resolution, written=resolution.written or pin.written).differences(pin)
    if differences:
        raise pin_mismatch(pin, differences)
    return resolution


def _warn(resolution: Resolution) -> None:
    """Say what may serve the model better, each hint once a process whatever model it came up with."""
    for hint in resolution.hints:
        warn_once(f"{resolution.model}: {resolution.backend} serves it; {hint}", key=("hint", hint))


def _created(selection: Selection) -> ResolvedRenderer:
    """The winner's renderer."""
    request, winner = selection.request, usable(selection)
    resolution = _recorded(selection, winner)
    settings = {"marker_text": request.options["marker_text"], "parse_check": request.options["parse_check"] == "on"}
    try:
        renderer = ResolvedRenderer(winner[0].backend, selection.query, winner[1], resolution, **settings)
    except RendererError as error:
        if not isinstance(error, OptionError) and (following := _following(selection, winner)):
            error.args = (f"{error}\n  or {following}", *error.args[1:])
        raise
    except (Exception, SystemExit) as error:
        lacks = lacking(selection.query.tokenizer, error, f"{resolution.backend}:{resolution.renderer}")
        repair = f"pip install {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else "repair it"
        raise lacks or CreateError(
            f"backend {resolution.backend!r} of {winner[0].distribution} covers {request.model!r} but can't build "
            f"{resolution.renderer!r}: {cause_of(error)}",
            fix=", or ".join(filter(None, (repair, _following(selection, winner)))),
        ) from error
    if request.pin is not None and request.pin.written:
        renderer.resolution = _as_pinned(renderer.proof(), request.pin)
    return renderer


def _following(selection: Selection, winner: Answered) -> str:
    """How to take what would come next, if the winner weren't there: nothing is taken in its place silently."""
    others = [other for other in selection.installed.registered if other is not winner[0]]
    try:
        following, _ = best(others, selection.query)
    except RendererError:  # ambiguous, or broken too
        following = None
    return f"take what would come next: backend={following[0].backend.name!r}" if following else ""


def _judge(renderer: ResolvedRenderer, selection: Selection, use: Callable[[Judgement], T | None]) -> T | None:
    """What is made of a judgement by the tokenizer's chat template; ``None`` where no plugin gives one."""
    given = {"renderer": renderer, "query": selection.query, "backends": selection.addressed}
    return selection.installed.first_answer("rllm_renderer_judge", use, **given)


def _judged(renderer: ResolvedRenderer, selection: Selection, *, enforced: bool = True) -> Selection:
    """The selection of a renderer that the tokenizer's chat template proves, where it disproves one that won by name.

    Where there is none, what differs is said, or refused by ``parity="error"``, but for ``enforced=False``; so too where
    nothing installed can compare.
    """
    options, winner, tokenizer = selection.request.options, selection.winner, selection.query.tokenizer
    mode, template = options["parity"], None if tokenizer is None else chat_template(tokenizer)
    if mode == "off" or template is None or winner is None or winner[1].by_template or winner[1].match is Match.PARITY:
        return selection

    def judged(judgement: Judgement) -> Selection:
        if mode == "prefer" and selection.by_name:
            better = judgement.better(need_bridge=options["require_bridge"])
            if better is not None:
                return selection.replaced(checked(better, "Detected or None", Detected))
        if enforced:
            judgement.enforce(mode)
        return selection

    answer = _judge(renderer, selection, judged)
    if answer is None and enforced:
        text = f"{renderer!r} can't be compared with the tokenizer's chat template: no plugin here does that"
        fix = "; or ".join(filter(None, (selection.installed.template_fix(), "parity='off'")))
        if mode == "error":
            raise ParityError(text, fix=fix)
        warn_once(f"{text}\n  fix: {fix}", key=("parity isn't checked",))  # once, as it is the same for every model
    return answer or selection
