"""The plugin's hook. Importing this module is light: what is heavy is imported by ``create``."""

from __future__ import annotations

from rllm_renderer_core import Backend, Coverage, Match, Query, Renderer, Unavailable, hookimpl

MODELS = frozenset({"acme/rot13-1", "acme/rot13-1-instruct"})
RENDERER = "rot13"


class Rot13Backend(Backend):
    """Covers the published models by their exact names."""

    name = "rot13"
    priority = 80

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        if query.renderer is not None:
            return Coverage(RENDERER, Match.NAMED, True, "named by the user") if query.renderer == RENDERER else None
        if query.model in MODELS:
            return Coverage(RENDERER, Match.EXACT, True, "one of the published models")
        return None

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        from .renderer import Rot13Renderer

        return Rot13Renderer()

    def renderer_names(self) -> tuple[str, ...]:
        return (RENDERER,)


@hookimpl
def rllm_renderer_backends() -> list[Backend]:
    return [Rot13Backend()]
