"""What ``rllm-renderer doctor`` finds in the environment variables of the core."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.plugin.hooks import PluginInfo

from ..commands.check import differences_here
from ..files import read_pin

VARIABLES = (
    *("RLLM_RENDERER_BACKEND", "RLLM_RENDERER_DISABLED", "RLLM_RENDERER_PIN"),
    *("RLLM_RENDERER_PLUGINS", "RLLM_RENDERER_STRICT"),
)


@dataclass(frozen=True)
class Finding:
    """Something worth saying; only a problem makes the exit status 1. ``trace`` is the traceback of what was raised, if any."""

    what: str
    fix: str = ""
    problem: bool = True
    trace: str = ""


def traced(error: BaseException | None) -> str:
    """The traceback of an error, with its causes."""
    return "" if error is None else "".join(traceback.format_exception(type(error), error, error.__traceback__))


def environment() -> dict[str, str]:
    """The variables of the core that are set, by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith("RLLM_RENDERER_")}


def variables(states: list[PluginInfo]) -> Iterator[Finding]:
    """What is wrong with the environment variables, given the plugins that are there."""
    known = {canonicalize_name(text) for plugin in states for text in (plugin.name, plugin.distribution)}
    backends = {name for plugin in states for name in plugin.backends}
    for name, value in environment().items():
        if name not in VARIABLES:
            yield Finding(f"{name} is no variable of the core", f"the core reads {', '.join(VARIABLES)}", problem=False)
        if name == "RLLM_RENDERER_BACKEND" and value and value not in backends:
            yield Finding(f"{name}={value} names no usable backend", f"unset it, or take one of {', '.join(sorted(backends))}")
        if name == "RLLM_RENDERER_PIN" and value:
            yield from _pin(value)
        if name in ("RLLM_RENDERER_DISABLED", "RLLM_RENDERER_PLUGINS"):
            for plugin in filter(None, (part.strip() for part in value.split(","))):
                if plugin != "*" and canonicalize_name(plugin) not in known:
                    yield Finding(f"{name} names {plugin!r}, which isn't installed", problem=False)


def _pin(file: str) -> Iterator[Finding]:
    """Whether the pin that every process is held to can be read, and reproduced here."""
    what = f"RLLM_RENDERER_PIN={file}"
    try:
        pin = read_pin(file)
    except RendererError as error:
        why = str(error).splitlines()[0]
        yield Finding(f"{what} is no pin: {why}", "unset it, or write the pin: rllm-renderer pin MODEL > FILE")
        return
    differences = differences_here(pin)
    if differences:
        what = f"{what} can't be reproduced here: {'; '.join(differences)}"
        yield Finding(what, "install what was pinned, or write a new pin")
