"""A digest of what a renderer writes for the probes: two of the same digest give the same ids, whatever their versions say."""

from __future__ import annotations

import hashlib

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.plugin import rendering_probes
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.renderer.sources import LENGTH

from .probes import PROBES


def written_digest(renderer: ResolvedRenderer) -> str:
    """Over the ids of each probe; a probe that is refused counts by the kind of its error."""
    whole = hashlib.sha256()
    with rendering_probes():
        for probe in PROBES:
            try:
                ids = renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.opener)
                written = " ".join(map(str, ids))
            except RendererError as error:
                written = type(error).__name__
            whole.update(f"{probe.name}: {written}\n".encode())
    return whole.hexdigest()[:LENGTH]
