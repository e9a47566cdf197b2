"""What makes two records of a resolution unequal, where digests of sources and of what is written tell more than versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .resolution import Resolution


def differences(one: Resolution, other: Resolution, mine: str, theirs: str) -> list[str]:
    """See ``Resolution.differences``.

    The same sources give the same ids, whatever their version is called; other sources are equal if what both write is known to
    be; sources that one side doesn't know say nothing.
    """
    lines = []
    ours, others = one.sources, other.sources
    unknown = ours.keys() ^ others.keys()
    same = {name for name in ours.keys() & others.keys() if ours[name] == others[name]}
    proven = one.written != "" and one.written == other.written
    # On the path a repository has no version: what it writes decides.
    same |= {name for name in ours if proven and "not installed" in (one.upstream.get(name), other.upstream.get(name))}
    passed = {"sources": {*ours, *others} if proven else unknown, "upstream": same}
    for each in fields(one):
        if not each.compare or (each.name == "written" and not (one.written and other.written)):
            continue
        left, right = getattr(one, each.name), getattr(other, each.name)
        if isinstance(left, Mapping):
            for key in sorted({*left, *right} - passed.get(each.name, set())):
                if left.get(key) != right.get(key):
                    lines.append(f"{each.name}.{key}: {_show(left.get(key))} {mine}, {_show(right.get(key))} {theirs}")
        elif left != right:
            lines.append(f"{each.name}: {_show(left)} {mine}, {_show(right)} {theirs}")
    return lines


def _show(value: Any) -> str:
    return value if isinstance(value, str) else "not set" if value is None else json.dumps(value, default=repr)
