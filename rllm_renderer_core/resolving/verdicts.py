"""Every backend's verdict on a model, as a table and as JSON; and what is refused before a renderer is built, with the fix."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import BackendUnavailableError, NoBackendError, NoBridgeError, OptionError, PluginError
from ..plugin import Backend, Coverage, Match, Query, Registered, Unavailable
from ..plugin.discovery import Installed
from ..plugin.distributions import absent, install_command
from ..plugin.hooks import ask, candidates, deviations, parsing, renderer_names
from ..renderer.resolved import ResolvedRenderer
from .request import Request
from .selection import Answered, Selection, pin_is_gone


@dataclass(frozen=True)
class Verdict:
    """One backend's answer: ``"covers"``, ``"unavailable"``, ``"no match"``, ``"not installed"``, or the state of a plugin that
    can't be used."""

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
    by_experiment: bool = False

    @property
    def bridge(self) -> str:
        """Whether it bridges, in a word or two."""
        if self.verdict != "covers":
            return "-"
        return ("by experiment" if self.by_experiment else "yes") if self.has_bridge else "no"


@dataclass(frozen=True)
class Explanation:
    """Every backend's verdict on a model, and the winner's name (``None`` where there is none); ``str()`` is a table."""

    model: str
    winner: str | None
    verdicts: tuple[Verdict, ...]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [("", "backend", "priority", "verdict", "renderer", "bridge", "reason")]
        for one in self.verdicts:
            mark, priority = "*" if one.backend == self.winner else "", "" if one.priority is None else str(one.priority)
            verdict = f"{one.verdict} ({one.match})" if one.match else one.verdict
            reason = "; ".join(filter(None, (one.reason, one.fix and f"fix: {one.fix}")))
            rows.append((mark, one.backend, priority, verdict, one.renderer or "-", one.bridge, reason))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join([f"{self.model or '(no name)'}: {self.reason}", *lines])


def explanation(request: Request, tokenizer: Any, installed: Installed, winner: Answered | None, reason: str) -> Explanation:
    """The table of verdicts; that of the winner is its coverage, whether its backend or the chat template said so."""
    query = request.query(tokenizer)
    verdicts = [_verdict(registered, query, winner) for registered in installed.registered]
    for plugin in installed.plugins:
        if plugin.fault is not None:
            text, fix = str(plugin.fault).splitlines()[0], plugin.fault.fix or ""
            verdicts.append(Verdict(plugin.name, plugin.distribution, plugin.version, None, plugin.state, reason=text, fix=fix))
    for name, distribution in installed.missing():
        state, fix = absent(distribution)
        verdicts.append(Verdict(name, distribution, "", None, state, fix=fix))
    return Explanation(request.model, winner and winner[0].backend.name, tuple(verdicts), reason)


def _verdict(registered: Registered, query: Query, winner: Answered | None) -> Verdict:
    source = (registered.backend.name, registered.distribution, registered.version, registered.backend.priority)
    try:
        answer = winner[1] if winner is not None and winner[0] == registered else ask(registered, query)
        if answer is None and query.tokenizer is not None:
            candidates(registered, query)  # what the search by the chat template asks it
        if isinstance(answer, Coverage):
            deviations(registered, answer)  # what a comparison with the template asks it
            reads = parsing(registered, query, answer) if query.tokenizer is not None else ""
            reason = "; ".join(filter(None, (answer.reason, reads)))
            match = answer.match.name.lower()
            return Verdict(*source, "covers", answer.renderer, match, answer.has_bridge, reason, "", answer.by_experiment)
    except PluginError as error:
        return Verdict(*source, "broken", reason=str(error).splitlines()[0], fix=error.fix or "")
    if isinstance(answer, Unavailable):
        return Verdict(*source, "unavailable", reason=answer.reason, fix=answer.fix)
    return Verdict(*source, "no match")


def usable(selection: Selection, *, early: bool = False) -> Answered:
    """The winner, if it can serve what was asked for; ``early``, a tokenizer may still find one with a bridge."""
    request = selection.request
    if selection.winner is None:
        error = _nothing_covers(selection)
        raise error if request.pin is None else pin_is_gone(request.pin, error)
    registered, coverage = selection.winner
    name, why = registered.backend.name, ""
    option, value = refused_option(registered.backend, selection.query) or ("", None)
    if not option and request.options["date"] is not None and not coverage.dated and selection.query.tokenizer is not None:
        option, value, why = "date", request.options["date"], f": {coverage.renderer!r} shows no date"
    if option:
        raise OptionError(
            f"backend {name!r} can't honour {option}={value!r}{why}",
            fix=f"leave {option} out" + ("" if why else ", or choose another backend="),
            option=option,
            backend=name,
        )
    undecided = early and selection.fallback and request.options["detect"]
    if request.options["require_bridge"] and not coverage.has_bridge and not undecided:
        raise _no_bridge(selection, selection.winner)
    return selection.winner


def refused_option(backend: Backend, query: Query) -> tuple[str, Any] | None:
    """The first option that was set and that the backend can't honour, with its value; ``None`` where there is none."""
    given = {option: getattr(query, option) for option in ("thinking", "chat_template_kwargs", "image_processor")}
    refused = (option for option, value in given.items() if value not in (None, {}) and option not in backend.options)
    return next(((option, given[option]) for option in refused), None)


def refuse_unparsed_tools(renderer: ResolvedRenderer) -> None:
    """Check that the renderer reads tool calls out of completions, for ``require_tools``."""
    if (why := renderer.why_no_tool_calls) is not None:
        raise NoBackendError(
            f"require_tools: {renderer.backend}:{renderer.name} serves {renderer.resolution.model!r}, but it parses no tool "
            f"calls: {why}",
            fix="choose another renderer= or backend=, or leave require_tools out: calls then stay in the content",
        )


def _no_bridge(selection: Selection, winner: Answered) -> NoBridgeError:
    request, (registered, coverage) = selection.request, winner
    name = registered.backend.name
    reason = "; ".join(filter(None, (f"{name} wins, without a bridge", selection.note)))
    table = explanation(request, selection.query.tokenizer, selection.installed, winner, reason)
    fix = "choose another renderer= or backend="
    if coverage.match is Match.FALLBACK:
        better = (verdict for verdict in table.verdicts if verdict.verdict in ("unavailable", "not installed", "broken"))
        fix = "; ".join(filter(None, ("name a renderer with renderer=", *(verdict.fix for verdict in better))))
    if selection.fallback and not selection.note and request.options["detect"]:
        fix += "; or resolve with the tokenizer, whose chat template may tell the renderer"
    return NoBridgeError(
        f"require_bridge: the best match for {request.model!r} is {name}:{coverage.renderer}, which has no bridge\n{table}",
        fix=fix,
        explanation=table,
    )


def _nothing_covers(selection: Selection) -> NoBackendError:
    request, installed = selection.request, selection.installed
    asked = f"{request.spelling}={request.renderer!r}"
    if selection.unavailable and (request.backend is not None or request.renderer is not None):
        registered, answer = selection.unavailable[0]
        backend = f"backend {registered.backend.name!r}"
        text = f"{asked} of {backend}" if request.backend is None else f"{backend} can't serve {request.model!r}"
        return BackendUnavailableError(f"{text}: {answer.reason}", fix=answer.fix)
    if request.renderer is not None and selection.addressed:
        known = "; ".join(map(_known_names, selection.addressed))
        return NoBackendError(f"no backend has a renderer for {asked}", fix=f"known are {known}")
    if request.renderer is not None:
        missing = [distribution for _, distribution in installed.missing()]
        fix = install_command(*missing) if missing else None
        return NoBackendError(f"no installed backend is addressed by {asked}", fix=fix)
    reason = "; ".join(filter(None, ("no backend covers it", selection.note)))
    table = explanation(request, selection.query.tokenizer, installed, None, reason)
    fix = installed.template_fix() if request.backend is None else None
    serves = f"{fix} (it serves any tokenizer with a chat template)" if fix else "install a plugin that covers it"
    return NoBackendError(
        f"no backend covers {request.model!r}\n{table}", fix=f"{serves}; or name a renderer with renderer=", explanation=table
    )


def _known_names(registered: Registered) -> str:
    try:
        return f"{registered.backend.name}: {', '.join(sorted(renderer_names(registered)))}"
    except PluginError as error:
        return str(error).splitlines()[0]
