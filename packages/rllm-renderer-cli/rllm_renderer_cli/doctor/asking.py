"""What ``rllm-renderer doctor`` learns by asking: each plugin loaded and each backend asked, alone, with a watch on it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import Any

from rllm_renderer_core.errors import AmbiguousBackendError, PluginError, RendererError
from rllm_renderer_core.plugin import Coverage, Query, Registered, Unavailable
from rllm_renderer_core.plugin.discovery import Plugin, load, load_backends
from rllm_renderer_core.plugin.hooks import ask, candidates, deviations, parsing, renderer_names
from rllm_renderer_core.resolving.selection import best

from .variables import Finding, traced

UNKNOWN = "nobody/knows-this-model"
"""A model that each backend is asked about: the answer must be that it isn't its own."""

SLOW_SECONDS = 1.0
"""What asking a backend may take: it is asked for every model that is resolved."""

clock = time.perf_counter


def loads(found: Sequence[Plugin]) -> Iterator[Finding]:
    """Load each plugin: what that prints, and whether it takes long."""
    for plugin in found:
        name = f"plugin {plugin.name!r} of {plugin.distribution} {plugin.version}"
        yield from _watched(name, "its import", partial(load, plugin))


def answers() -> Iterator[Finding]:
    """What each backend answers about a model that nobody knows, and its list of renderers."""
    for registered in load_backends().registered:
        name = f"backend {registered.backend.name!r} of {registered.distribution} {registered.version}"
        yield from _watched(name, "covers", partial(ask, registered, Query(UNKNOWN)))
        yield from _watched(name, "renderer_names", partial(renderer_names, registered))


def install_fix(plugin: str, upstream: str) -> str:
    """How to install what a plugin wraps: as its backend says, which knows where an index doesn't have it, else by the name."""
    for registered in load_backends().registered:
        if registered.plugin == plugin and upstream in registered.backend.upstream:
            for name in renderer_names(registered)[:1]:
                answer = ask(registered, Query(UNKNOWN, renderer=name, backend=registered.backend.name))
                if isinstance(answer, Unavailable):
                    return answer.fix
    return f"pip install {upstream}"


def claims() -> Iterator[Finding]:
    """Models and renderers that backends of two distributions claim equally; only those of equal priority are asked."""
    levels: dict[int, list[Registered]] = {}
    for registered in load_backends().registered:
        levels.setdefault(registered.backend.priority, []).append(registered)
    for same in levels.values():
        if len({registered.distribution for registered in same}) < 2:
            continue
        ambiguous: dict[tuple[str, ...], list[AmbiguousBackendError]] = {}
        for query in _queries(same):
            try:
                best(same, query)
            except AmbiguousBackendError as error:
                ambiguous.setdefault(error.backends, []).append(error)
            except RendererError:  # under RLLM_RENDERER_STRICT=1, what ``answers`` says
                continue
        for errors in ambiguous.values():
            more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
            yield Finding(f"ambiguous: {str(errors[0]).splitlines()[0]}{more}", f"uninstall one of them, or {errors[0].fix}")


def tried(model: str, tokenizer: Any) -> Iterator[Finding]:
    """What goes wrong when the renderer of a model is built and each of its methods is called once."""
    from rllm_renderer_template.parity.faults import faults_of

    from rllm_renderer_core.resolving.resolver import resolve

    query = Query(model or str(getattr(tokenizer, "name_or_path", "")), tokenizer)
    for registered in load_backends().registered:
        try:
            answer = ask(registered, query)
            candidates(registered, query)
            if isinstance(answer, Coverage):
                parsing(registered, query, answer)
                deviations(registered, answer)
        except PluginError as error:
            yield Finding(str(error).splitlines()[0], error.fix or "", trace=traced(error))
    try:
        faults = faults_of(resolve(model or None, tokenizer, parity="off"))
    except RendererError as error:
        yield Finding(str(error).splitlines()[0], error.fix or "", trace=traced(error))
        return
    for fault in faults:
        yield Finding(fault, "report it to the plugin's authors, or choose another backend= for this model")


def _queries(same: list[Registered]) -> Iterator[Query]:
    models: set[str] = set()
    renderers: set[str] = set()
    for registered in same:
        try:
            models.update(map(str, registered.backend.models()))
            renderers.update(renderer_names(registered))
        except (Exception, SystemExit):  # said by ``answers``
            continue
    yield from (Query(model) for model in sorted(models))
    yield from (Query(UNKNOWN, renderer=name) for name in sorted(renderers))


def _watched(name: str, what: str, call: Callable[[], object]) -> Iterator[Finding]:
    printed = io.StringIO()
    start = clock()
    try:
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            call()
    except PluginError as error:
        yield Finding(str(error).splitlines()[0], error.fix or "", trace=traced(error))
    seconds = clock() - start
    if printed.getvalue():
        text = printed.getvalue().strip().splitlines()[:1]
        yield Finding(f"{name}: {what} prints {''.join(text)!r}, which breaks the output of programs", problem=False)
    if seconds > SLOW_SECONDS:
        yield Finding(f"{name}: {what} took {seconds:.1f} s, and counts for every model that is resolved", problem=False)
