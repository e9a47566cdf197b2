"""From a model's name to its renderer: request, selection, detection, record, creation, check, each entered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import CreateError, OptionError, ParityError, PinMismatchError, RendererError
from ..guards.tokenizer_works import check_tokenizer, lacking
from ..normal_form.tokenizer import chat_template, load_tokenizer
from ..plugin import Judgement, Match
from ..plugin.discovery import Installed, cause_of, load_backends, warn_once
from ..plugin.metadata import installed_version
from ..renderer.resolution import Resolution
from ..renderer.resolved import ResolvedRenderer
from ..renderer.sources import source_digests
from ..version import __version__
from .explanation import Explanation, explanation
from .refusals import refuse_missing_backend, refuse_unparsed_tools, usable
from .request import Options, Request
from .selection import Answered, Selection, detected, select

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
        usable(_selected(request, None, installed), early=True)
        tokenizer = load_tokenizer(request.model)
    selection = detected(_selected(request, tokenizer, installed))
    renderer = _created(selection)
    proven = _judged(renderer, selection)
    if proven is not None:
        renderer = _created(proven)
    if request.require_tools:
        refuse_unparsed_tools(renderer)
    _warn(renderer.resolution)
    return renderer


def select_backend(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Resolution:
    """The ``Resolution`` that ``resolve`` would come to by names, building no renderer and loading no tokenizer.

    Where no backend covers the name, or the renderer by that name differs from the tokenizer's chat template, ``resolve`` with
    a tokenizer may find more than this: see the options ``detect`` and ``parity``.
    """
    selection = _selected(Request.make(model, tokenizer, options), tokenizer, load_backends())
    resolution = _recorded(selection, usable(selection))
    _warn(resolution)
    return resolution


def explain(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Explanation:
    """Asks every backend, winner or not, and says what each answered; with a tokenizer, what its chat template decided too."""
    request, installed = Request.make(model, tokenizer, options), load_backends()
    winner: Answered | None = None
    try:
        selection = detected(_selected(request, tokenizer, installed))
        winner = usable(selection)
        faults: list[str] = []
        if selection.by_name and tokenizer is not None:
            renderer = _created(selection)
            faults = _judge(renderer, selection, lambda judgement: [*map(str, judgement.faults())]) or []
            if _comparable(selection):
                by_name = selection
                selection = _judge(renderer, by_name, lambda judgement: _better(judgement, by_name)) or by_name
                winner = usable(selection)
        note = "" if winner[1].match is Match.PARITY else selection.note
        reason = "; ".join(filter(None, [f"{winner[0].backend.name} wins", note, *faults]))
    except RendererError as error:
        reason = str(error).splitlines()[0]
    return explanation(request, tokenizer, installed, winner, reason)


def _selected(request: Request, tokenizer: Any, installed: Installed) -> Selection:
    if request.backend is not None:
        refuse_missing_backend(request, installed)
    check_tokenizer(tokenizer)
    return select(request, tokenizer, installed)


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
        hints += [str(plugin.error) for plugin in installed.plugins if plugin.error is not None and plugin.state != "disabled"]
        if installed.missing():
            missing = ", ".join(name for name, _ in installed.missing())
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
        lines = "\n  ".join(differences)
        raise PinMismatchError(
            f"the pinned resolution of {pin.model!r} can't be reproduced here\n  {lines}",
            fix="install what was pinned, or write a new pin: rllm-renderer pin MODEL",
            differences=tuple(differences),
        )
    return resolution


def _warn(resolution: Resolution) -> None:
    """Say what may serve the model better, each hint once a process whatever model it came up with."""
    for hint in resolution.hints:
        warn_once(f"{resolution.model}: {resolution.backend} serves it; {hint}", key=("hint", hint))


def _created(selection: Selection) -> ResolvedRenderer:
    """The winner's renderer.

    Raises:
        CreateError: It can't be built.
        RendererError: As the backend's ``create``.
    """
    request, winner = selection.request, usable(selection)
    resolution = _recorded(selection, winner)
    settings = {"marker_text": request.options["marker_text"], "parse_check": request.parse_check == "on"}
    try:
        renderer = ResolvedRenderer(winner[0].backend, selection.query, winner[1], resolution, **settings)
    except OptionError:
        raise
    except (Exception, SystemExit) as error:
        lacks = lacking(selection.query.tokenizer, error, f"{resolution.backend}:{resolution.renderer}")
        raised = lacks or _create_error(selection, winner, error)
        if raised is error:
            raise
        raise raised from error
    if request.pin is not None and request.pin.written:
        renderer.resolution = _as_pinned(renderer.proof(), request.pin)
    return renderer


def _create_error(selection: Selection, winner: Answered, error: BaseException) -> RendererError:
    """What the winner's ``create`` raised, with what would have come next: nothing is taken in its place silently."""
    registered, coverage = winner
    try:
        following = selection.following()
    except RendererError:  # ambiguous, or broken too
        following = None
    instead = f"take what would come next: backend={following.backend.name!r}" if following else ""
    if isinstance(error, RendererError):
        if instead:
            error.args = (f"{error}\n  or {instead}", *error.args[1:])
        return error
    repair = f"pip install {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else "repair it"
    return CreateError(
        f"backend {registered.backend.name!r} of {registered.distribution} covers {selection.request.model!r} but can't build "
        f"{coverage.renderer!r}: {cause_of(error)}",
        fix=", or ".join(filter(None, (repair, instead))),
    )


def _judge(renderer: ResolvedRenderer, selection: Selection, use: Callable[[Judgement], T | None]) -> T | None:
    """What is made of a judgement by the tokenizer's chat template; ``None`` where no plugin gives one."""
    given = {"renderer": renderer, "query": selection.query, "backends": selection.addressed}
    return selection.installed.first_answer("rllm_renderer_judge", use, **given)


def _judged(renderer: ResolvedRenderer, selection: Selection) -> Selection | None:
    """The selection of a renderer that the tokenizer's chat template proves, where it disproves one that won by name.

    Where there is none, what differs is said; and so it is where nothing installed can compare.

    Raises:
        ParityError: ``parity="error"``, and the renderer differs or can't be compared.
    """
    mode = selection.request.parity

    def judged(judgement: Judgement) -> tuple[Selection | None]:
        better = _better(judgement, selection)
        if better is None:
            judgement.enforce(mode)
        return (better,)

    if mode == "off" or not _comparable(selection):
        return None
    answer = _judge(renderer, selection, judged)
    if answer is None:
        text = f"{renderer!r} can't be compared with the tokenizer's chat template: no plugin here does that"
        fix = "; or ".join(filter(None, (selection.installed.template_fix(), "parity='off'")))
        if mode == "error":
            raise ParityError(text, fix=fix)
        warn_once(f"{text}\n  fix: {fix}", key=("parity isn't checked",))  # once, as it is the same for every model
    return answer and answer[0]


def _better(judgement: Judgement, selection: Selection) -> Selection | None:
    request = selection.request
    if request.parity != "prefer" or not selection.by_name:
        return None
    better = judgement.better(need_bridge=request.require_bridge)
    return None if better is None else selection.replaced(better)


def _comparable(selection: Selection) -> bool:
    """Whether the tokenizer has a chat template to compare the winner with, by which it wasn't found."""
    tokenizer = selection.query.tokenizer
    if selection.winner is None or tokenizer is None:
        return False
    coverage = selection.winner[1]
    return not coverage.by_template and coverage.match is not Match.PARITY and chat_template(tokenizer) is not None
