"""Source text of plugin modules, to be installed by the ``install`` fixture."""

from __future__ import annotations

BACKEND = """
import toy
from rllm_renderer_core import Backend, Coverage, Match, Unavailable, hookimpl


class B{number}(Backend):
    name = {name!r}
    priority = {priority!r}
    options = frozenset({options!r})
    spellings = frozenset({spellings!r})
    upstream = {upstream!r}

    def covers(self, query):
        ASKED.append(self.name)
        {covers}
        if query.renderer is not None:
            known = query.renderer in self.renderer_names()
            return Coverage(query.renderer, Match.NAMED, {bridge!r}, "named by the user") if known else None
        if query.model in {models!r}:
            return Coverage({renderer!r}, Match.{match}, {bridge!r}, "a made-up rule")

    def create(self, query, coverage):
        {create}
        return toy.ToyRenderer(query.tokenizer)

    def renderer_names(self):
        return [{renderer!r}]
"""


def backend(
    name: str,
    *,
    priority: object = 10,
    models: tuple[str, ...] = ("toy/toy-1",),
    match: str = "EXACT",
    renderer: str = "toy",
    bridge: bool = True,
    options: tuple[str, ...] = (),
    spellings: tuple[str, ...] = (),
    upstream: tuple[str, ...] = (),
    covers: str = "pass",
    create: str = "pass",
    number: int = 0,
) -> str:
    """A class that covers some models; ``covers`` and ``create`` are statements to run first."""
    return BACKEND.format(**locals())


def plugin(*names: str, **settings: object) -> str:
    """A plugin module with one backend for each name."""
    classes = "".join(backend(name, number=number, **settings) for number, name in enumerate(names))  # type: ignore[arg-type]
    made = ", ".join(f"B{number}()" for number in range(len(names)))
    return f"ASKED = []\n{classes}\n\n@hookimpl\ndef rllm_renderer_backends():\n    return [{made}]\n"
