"""From a model's name to its renderer: request, selection, detection, record, creation, check, each entered once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import CreateError, OptionError, ParityError, PinMismatchError, RendererError
from ..normal_form.tokenizer import chat_template, lacking, load_tokenizer
from ..plugin import Judgement, Match
from ..plugin.discovery import load_backends, warn_once
from ..plugin.distributions import TEMPLATE_DISTRIBUTION, absent, install_command
from ..plugin.loading import cause_of
from ..plugin.metadata import installed_version
from ..renderer.resolution import Resolution
from ..renderer.resolved import ResolvedRenderer
from ..renderer.sources import SourceDigests
from ..version import __version__
from .explanation import Explanation, explanation
from .refusals import refuse_missing_backend, refuse_unparsed_tools, usable
from .request import Options, Request, recorded
from .selection import Selection, select

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        TokenizerError: No tokenizer was passed and none can be loaded.
    """
    request = Request.make(model, tokenizer, options)
    selection = _detected(_selected(request, _loaded(request) if tokenizer is None else tokenizer))
    renderer = _checked(_created(selection), selection)
    _warn(renderer.resolution)
    return renderer


def select_backend(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Resolution:
    """The ``Resolution`` that ``resolve`` would come to by names, building no renderer and loading no tokenizer.

    Where no backend covers the name, or the renderer by that name differs from the tokenizer's chat template, ``resolve`` with
    a tokenizer may find more than this: see the options ``detect`` and ``parity``.
    """
    resolution = _recorded(_selected(Request.make(model, tokenizer, options), tokenizer))
    _warn(resolution)
    return resolution


def explain(model: str | None = None, tokenizer: Any = None, **options: Unpack[Options]) -> Explanation:
    """Asks every backend, winner or not, and says what each answered; with a tokenizer, what its chat template decided too."""
    request = Request.make(model, tokenizer, options)
    winner: str | None = None
    detected = None
    try:
        selection = _detected(_selected(request, tokenizer))
        winner = usable(selection)[0].backend.name
        faults: list[str] = []
        if selection.by_name and tokenizer is not None:
            renderer = _created(selection)
            judgement = _judgement(renderer, selection)
            faults = judgement.faults() if judgement is not None else []
            selection = _preferred(judgement, selection) or selection
        registered, coverage = usable(selection)
        winner = registered.backend.name
        detected = coverage if coverage.match is Match.PARITY else None
        reason = "; ".join([f"{winner} wins", *([selection.note] if selection.note and detected is None else []), *faults])
    except RendererError as error:
        reason = str(error).splitlines()[0]
    return explanation(request, tokenizer, load_backends(), winner, reason, detected)


def _loaded(request: Request) -> Any:
    """The model's tokenizer; what fails by names alone fails before anything is loaded."""
    usable(_selected(request, None), early=True)
    return load_tokenizer(request.model)


def _selected(request: Request, tokenizer: Any) -> Selection:
    installed = load_backends()
    refuse_missing_backend(request, installed)
    return select(request, tokenizer, installed)


def _detected(selection: Selection) -> Selection:
    """The selection with what the tokenizer's chat template tells, where no backend covers the name."""
    if not selection.detectable:
        return selection
    found = selection.installed.first_result("rllm_renderer_detect", query=selection.query, backends=selection.addressed)
    return selection if found is None else selection.detected(found)


def _recorded(selection: Selection) -> Resolution:
    """The record of what was chosen; equal to the pin, where there is one."""
    registered, coverage = usable(selection)
    backend, request, installed = registered.backend, selection.request, selection.installed
    hints = [f"{each.backend.name}: {answer.reason}; {answer.fix}" for each, answer in selection.unavailable]
    if coverage.match is Match.PARITY and coverage.has_bridge:
        hints = []  # proven, with a bridge: nothing would serve it better
    if coverage.match is Match.FALLBACK and selection.note:
        hints.append(selection.note)
    if coverage.match is Match.FALLBACK and request.backend is None:
        hints += [str(p.error) for p in installed.found if p.error is not None and p.state != "disabled"]
        if installed.missing():
            missing = (f"{name} ({absent(dist)[1]})" for name, dist in installed.missing())
            hints.append(f"not installed: {', '.join(missing)}")
    resolution = Resolution(
        model=selection.query.model,
        backend=backend.name,
        renderer=coverage.renderer,
        match=coverage.match.name.lower(),
        has_bridge=coverage.has_bridge,
        options=recorded({**request.options, "date": selection.query.date if coverage.dated else None}),
        plugin=f"{registered.distribution} {registered.version}",
        core=__version__,
        upstream={name: installed_version(name) or "not installed" for name in backend.upstream},
        sources=SourceDigests(backend.upstream, backend.sources),
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
    """Say once what would serve the model better."""
    for hint in resolution.hints:
        warn_once(f"{resolution.model}: {resolution.backend} serves it with less than could be: {hint}")


def _created(selection: Selection) -> ResolvedRenderer:
    """The winner's renderer.

    Raises:
        CreateError: It can't be built.
        RendererError: As the backend's ``create``.
    """
    registered, coverage = usable(selection)
    resolution = _recorded(selection)
    pin, marker_text = selection.request.pin, selection.request.options["marker_text"]
    try:
        renderer = ResolvedRenderer(
            registered.backend,
            selection.query,
            coverage,
            resolution,
            marker_text=marker_text,
            parse_check=selection.request.parse_check,
        )
    except OptionError:
        raise
    except (Exception, SystemExit) as error:
        lacks = lacking(selection.query.tokenizer, error, f"{resolution.backend}:{resolution.renderer}")
        if lacks is not None:
            raise lacks from error
        raised = _create_error(selection, error)
        if raised is error:
            raise
        raise raised from error
    if pin is not None and pin.written:
        renderer.resolution = _as_pinned(renderer.proof(), pin)
    return renderer


def _judgement(renderer: ResolvedRenderer, selection: Selection) -> Judgement | None:
    """What the tokenizer's chat template says of a renderer; ``None`` where no plugin is installed that can tell."""
    given = {"renderer": renderer, "query": selection.query, "backends": selection.addressed}
    found: Judgement | None = selection.installed.first_result("rllm_renderer_judge", **given)
    return found


def _create_error(selection: Selection, error: BaseException) -> RendererError:
    """What the winner's ``create`` raised, with what would have come next: nothing is taken in its place silently."""
    registered, coverage = usable(selection)
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


def _say_unchecked(renderer: ResolvedRenderer, mode: str) -> None:
    """Say that a renderer wasn't compared with its tokenizer's chat template, as nothing that could is installed."""
    text = f"{renderer.resolution.model}: {renderer.backend}:{renderer.name} wasn't compared with the tokenizer's chat template"
    fix = f"{install_command(TEMPLATE_DISTRIBUTION)}; or parity='off'"
    if mode == "error":
        raise ParityError(text, fix=fix)
    warn_once(f"{text}\n  fix: {fix}")


def _comparable(selection: Selection) -> bool:
    """Whether the winner is to be compared with the tokenizer's chat template, where that isn't how it was found."""
    _, coverage = usable(selection)
    by_template = coverage.by_template or coverage.match is Match.PARITY
    tokenizer = selection.query.tokenizer
    wanted = selection.request.parity != "off" and not by_template and tokenizer is not None
    return wanted and chat_template(tokenizer) is not None


def _preferred(judgement: Judgement | None, selection: Selection) -> Selection | None:
    """The selection of a renderer that the chat template proves, where it disproves one that won by name."""
    request = selection.request
    if judgement is None or request.parity != "prefer" or not selection.by_name or not _comparable(selection):
        return None
    found = judgement.better(need_bridge=request.require_bridge)
    return None if found is None else selection.detected(found)


def _checked(renderer: ResolvedRenderer, selection: Selection) -> ResolvedRenderer:
    """The renderer after its comparison with the tokenizer's chat template: itself, or the one that the template proves."""
    judgement = _judgement(renderer, selection) if _comparable(selection) else None
    proven = _preferred(judgement, selection)
    if proven is not None:
        renderer = _created(proven)
    elif judgement is not None:
        judgement.enforce(selection.request.parity)
    elif _comparable(selection):
        _say_unchecked(renderer, selection.request.parity)
    if selection.request.require_tools:
        refuse_unparsed_tools(renderer)
    return renderer
