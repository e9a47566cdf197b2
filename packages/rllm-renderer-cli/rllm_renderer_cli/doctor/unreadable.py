"""What ``rllm-renderer doctor`` finds where metadata of installed distributions can't be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import importlib_metadata

from rllm_renderer_core.plugin import GROUP

from .variables import Finding


def entry_points(dist: Any) -> list[Any]:
    """The distribution's entry points in the group; none where they can't be read, which ``unreadable`` tells."""
    try:
        return [point for point in dist.entry_points if point.group == GROUP]
    except Exception:
        return []


def unreadable() -> Iterator[Finding]:
    """Distributions whose entry points can't be read, and folders without metadata; a problem where they may be plugins."""
    for dist in importlib_metadata.distributions():
        place = str(getattr(dist, "_path", ""))
        folder = os.path.basename(place)
        ours = "rllm_renderer" in folder.replace("-", "_")
        fix = f"delete {place}, or install the distribution again"
        if os.path.isdir(place) and not os.listdir(place):
            yield Finding(
                f"{place} is an empty folder without metadata, as an interrupted uninstall leaves it", fix, problem=ours
            )
            continue
        try:
            list(dist.entry_points)
        except Exception as error:
            what = f"{os.path.join(place, 'entry_points.txt')} can't be read: {type(error).__name__}: {error}"
            yield Finding(what, fix, problem=ours or _mentions_group(place))


def _mentions_group(place: str) -> bool:
    try:
        with open(os.path.join(place, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False
