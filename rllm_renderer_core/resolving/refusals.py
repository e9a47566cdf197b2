"""What is refused before a renderer is built, each with its fix."""

from __future__ import annotations

from ..errors import (
    BackendUnavailableError,
    NoBackendError,
    NoBridgeError,
    OptionError,
    PinMismatchError,
    PluginError,
    RendererError,
)
from ..plugin import Match, Registered
from ..plugin.answers import renderer_names
from ..plugin.discovery import Installed
from ..plugin.distributions import KNOWN_PLUGINS, absent, install_command
from ..renderer.resolution import Resolution
from ..renderer.resolved import ResolvedRenderer
from .explanation import Explanation, explanation
from .request import Request, refused_option
from .selection import Answered, Selection


def refuse_missing_backend(request: Request, installed: Installed) -> None:
    """Check that the backend which the user named is there.

    Raises:
        BackendUnavailableError: It isn't installed, or it is broken.
    """
    name = request.backend
    if name is None or name in {each.backend.name for each in installed.registered}:
        return
    if request.pin is not None:
        broken = [str(plugin.error).splitlines()[0] for plugin in installed.found if plugin.error is not None]
        why = next((text for text in broken if name in text), f"backend {name!r} isn't installed")
        raise _pin_is_gone(request.pin, why)
    for plugin in installed.found:
        if plugin.error is not None and name in (plugin.name, *(backend.name for backend in plugin.backends)):
            error = BackendUnavailableError(f"backend {name!r} was asked for, but {plugin.error}", fix=None)
            error.__cause__ = plugin.error.__cause__ or plugin.error
            raise error
    known = ", ".join(sorted(each.backend.name for each in installed.registered))
    if name not in KNOWN_PLUGINS:
        raise BackendUnavailableError(f"backend {name!r} isn't installed", fix=f"installed are {known}")
    state, fix = absent(KNOWN_PLUGINS[name])
    said = "isn't installed" if state == "not installed" else f"has {state}"
    raise BackendUnavailableError(f"backend {name!r} {said}", fix=fix)


def _pin_is_gone(pin: Resolution, why: str) -> PinMismatchError:
    what = f"{pin.backend}:{pin.renderer} of {pin.plugin or 'a plugin'} was pinned, and {why}"
    wrapped = " ".join(f"{name}=={version}" for name, version in pin.upstream.items())
    return PinMismatchError(
        f"the pinned resolution of {pin.model!r} can't be reproduced here: {what}",
        fix=f"install what was pinned ({' '.join(filter(None, (pin.plugin, wrapped)))}), or write a new pin",
        differences=(what,),
    )


def usable(selection: Selection, *, early: bool = False) -> Answered:
    """The winner, if it can serve what was asked for.

    Args:
        selection: What came of asking.
        early: The tokenizer comes later and may find a renderer with a bridge, so that a fallback without one may pass.

    Raises:
        NoBackendError, BackendUnavailableError: Nothing covers the model.
        OptionError: An option that the winner can't honour.
        NoBridgeError: ``require_bridge``, and the winner has none.
    """
    if selection.winner is None and selection.request.pin is not None:
        raise _pin_is_gone(selection.request.pin, str(_nothing_covers(selection)).splitlines()[0])
    if selection.winner is None:
        raise _nothing_covers(selection)
    registered, coverage = selection.winner
    refused = refused_option(registered.backend, selection.query, coverage)
    if refused is not None:
        option, value = refused
        raise OptionError(
            f"backend {registered.backend.name!r} can't honour {option}={value!r}",
            fix=f"leave {option} out, or choose another backend=",
            option=option,
            backend=registered.backend.name,
        )
    request = selection.request
    if request.options["date"] is not None and not coverage.dated and selection.query.tokenizer is not None:
        raise OptionError(
            f"backend {registered.backend.name!r} can't honour date={request.options['date']!r}: "
            f"{coverage.renderer!r} shows no date",
            fix="leave date out",
            option="date",
            backend=registered.backend.name,
        )
    if request.require_bridge and not coverage.has_bridge and not (early and selection.fallback and request.detect):
        raise _no_bridge(selection, registered.backend.name, coverage.renderer)
    return selection.winner


def refuse_unparsed_tools(renderer: ResolvedRenderer) -> None:
    """Check that the renderer reads tool calls out of completions, for ``require_tools``.

    Raises:
        NoBackendError: It can't; the reason is what was learned or what its backend says.
    """
    why = renderer.why_no_tool_calls
    if why is not None:
        raise NoBackendError(
            f"require_tools: {renderer.backend}:{renderer.name} serves {renderer.resolution.model!r}, but it parses no tool "
            f"calls: {why}",
            fix="choose another renderer= or backend=, or leave require_tools out: calls then stay in the content",
        )


def _known_names(registered: Registered) -> str:
    try:
        return f"{registered.backend.name}: {', '.join(sorted(renderer_names(registered)))}"
    except PluginError as error:
        return str(error).splitlines()[0]


def _no_bridge(selection: Selection, name: str, renderer: str) -> NoBridgeError:
    request = selection.request
    reason = f"{name} wins, without a bridge" + (f"; {selection.note}" if selection.note else "")
    table = explanation(request, selection.query.tokenizer, selection.installed, name, reason)
    fix = _bridge_fix(table, fallback=selection.winner is not None and selection.winner[1].match is Match.FALLBACK)
    if selection.fallback and not selection.note and request.detect:
        fix += "; or resolve with the tokenizer, whose chat template may tell the renderer"
    return NoBridgeError(
        f"require_bridge: the best match for {request.model!r} is {name}:{renderer}, which has no bridge\n{table}",
        fix=fix,
        explanation=table,
    )


def _bridge_fix(table: Explanation, *, fallback: bool) -> str:
    if fallback:
        names = [v.fix for v in table.verdicts if v.verdict in ("unavailable", "not installed", "broken") and v.fix]
        return "; ".join(["name a renderer with renderer=", *names])
    return "choose another renderer= or backend="


def _nothing_covers(selection: Selection) -> RendererError:
    request, unavailable = selection.request, selection.unavailable
    if request.backend is not None and unavailable:
        each, answer = unavailable[0]
        return BackendUnavailableError(
            f"backend {each.backend.name!r} can't serve {request.model!r}: {answer.reason}", fix=answer.fix
        )
    if request.renderer is not None:
        known = "; ".join(_known_names(each) for each in selection.addressed)
        what = f"{request.spelling}={request.renderer!r}"
        if unavailable:
            each, answer = unavailable[0]
            return BackendUnavailableError(f"{what} of backend {each.backend.name!r}: {answer.reason}", fix=answer.fix)
        if not selection.addressed:
            missing = [dist for _, dist in selection.installed.missing()]
            fix = install_command(*missing) if missing else None
            return NoBackendError(f"no installed backend is addressed by {what}", fix=fix)
        return NoBackendError(f"no backend has a renderer for {what}", fix=f"known are {known}")
    reason = "; ".join(filter(None, ("no backend covers it", selection.note)))
    table = explanation(request, selection.query.tokenizer, selection.installed, None, reason)
    return NoBackendError(
        f"no backend covers {request.model!r}\n{table}",
        fix="name a renderer with renderer=, or install a plugin that covers it",
        explanation=table,
    )
