"""The errors of the resolver, each with its fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .discovery import KNOWN_PLUGINS, Plugin, Registered
from .errors import BackendUnavailableError, NoBackendError, RendererError
from .explanation import Explanation, explanation, not_installed
from .plugin import Unavailable
from .request import Request


def bridge_fix(table: Explanation, winner: str) -> str:
    if winner == "chat-template":
        names = [v.fix for v in table.verdicts if v.verdict in ("unavailable", "not installed", "broken") and v.fix]
        return "; ".join(["name a renderer with renderer=, or template_bridge=True", *names])
    return "choose another renderer= or backend="


def missing_backend(request: Request, registered: Sequence[Registered], found: Sequence[Plugin]) -> RendererError:
    name = str(request.backend)
    for plugin in found:
        if plugin.error is not None and name in (plugin.name, *plugin.backends):
            error = BackendUnavailableError(f"backend {name!r} was asked for, but {plugin.error}", fix=None)
            error.__cause__ = plugin.error.__cause__ or plugin.error
            return error
    known = ", ".join(sorted(each.backend.name for each in registered))
    fix = f"pip install {KNOWN_PLUGINS[name]}" if name in KNOWN_PLUGINS else f"installed are {known}"
    return BackendUnavailableError(f"backend {name!r} isn't installed", fix=fix)


def nothing_covers(
    request: Request,
    tokenizer: Any,
    registered: Sequence[Registered],
    found: Sequence[Plugin],
    addressed: Sequence[Registered],
    unavailable: Sequence[tuple[Registered, Unavailable]],
    note: str,
) -> RendererError:
    if request.backend is not None and unavailable:
        each, answer = unavailable[0]
        return BackendUnavailableError(
            f"backend {each.backend.name!r} can't serve {request.model!r}: {answer.reason}", fix=answer.fix
        )
    if request.renderer is not None:
        known = "; ".join(f"{each.backend.name}: {', '.join(sorted(each.backend.renderer_names()))}" for each in addressed)
        what = f"{request.spelling}={request.renderer!r}"
        if unavailable:
            each, answer = unavailable[0]
            return BackendUnavailableError(f"{what} of backend {each.backend.name!r}: {answer.reason}", fix=answer.fix)
        if not addressed:
            missing = ", ".join(f"pip install {dist}" for _, dist in not_installed(registered, found))
            return NoBackendError(f"no installed backend is addressed by {what}", fix=missing or None)
        return NoBackendError(f"no backend has a renderer for {what}", fix=f"known are {known}")
    table = explanation(request, tokenizer, registered, found, None, "; ".join(filter(None, ("no backend covers it", note))))
    return NoBackendError(
        f"no backend covers {request.model!r}\n{table}",
        fix="name a renderer with renderer=, or install a plugin that covers it",
        explanation=table,
    )
