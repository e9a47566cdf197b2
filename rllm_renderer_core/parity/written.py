"""A digest of what a renderer writes for the probes: two of the same digest give the same ids, whatever their versions say."""

from __future__ import annotations

import hashlib

from ..contract.sources import LENGTH
from ..errors import RendererError
from ..plugin import probing
from ..renderer import ResolvedRenderer
from .probes import PROBES


def written_digest(renderer: ResolvedRenderer) -> str:
    """Over the ids of each probe; a probe that is refused counts by the kind of its error."""
    whole = hashlib.sha256()
    token = probing.set(True)
    try:
        for probe in PROBES:
            try:
                ids = renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.opener)
                written = " ".join(map(str, ids))
            except RendererError as error:
                written = type(error).__name__
            whole.update(f"{probe.name}: {written}\n".encode())
    finally:
        probing.reset(token)
    return whole.hexdigest()[:LENGTH]
