"""What a bulk run does, as a record in its folder: only a run of the same plan goes on there."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rllm_renderer_core.errors import OptionError

from .inputs import digest_of
from .mapper import SupervisedMapper

_FOR_PEOPLE = frozenset({"reason", "hints"})
"""What a resolution says beside what it is."""


def plan_of(source: pathlib.Path, mapper: SupervisedMapper, shard_rows: int) -> dict[str, Any]:
    """All that the files depend on, as JSON values."""
    plan = {
        "schema": 1,
        "source": source.name,
        "source_digest": digest_of(source),
        "model": mapper.model,
        "tokenizer": _tokenizer_digest(mapper.renderer),
        "resolution": None if mapper.pin is None else dict(mapper.pin),
        "options": mapper.supervised_options,
        "strict": mapper.strict,
        "shard_rows": shard_rows,
    }
    return json.loads(json.dumps(plan, default=sorted))  # type: ignore[no-any-return]


def same_plan(file: pathlib.Path, plan: Mapping[str, Any]) -> None:
    """Write the plan into a new folder, or refuse one that holds another run."""
    if not file.exists():
        if any(file.parent.glob("part-*")):
            raise OptionError(f"{file.parent} holds parts of an unknown run", fix="take a new --output", option="output")
        replace_whole(file, lambda part: part.write_text(json.dumps(plan), encoding="utf-8"))
        return
    known = json.loads(file.read_text(encoding="utf-8"))
    odd = list(_differences(known, plan))
    if odd:
        raise OptionError(f"{file.parent} holds a run that differs in {'; '.join(odd)}", fix=_fix(known, plan), option="output")


def replace_whole(file: pathlib.Path, write: Callable[[pathlib.Path], Any]) -> None:
    """Write under another name, reach the disk, rename: the file is whole or not there."""
    part = file.with_name(file.name + ".part")
    write(part)
    with open(part, "rb+") as written:
        os.fsync(written.fileno())
    os.replace(part, file)


def _differences(known: Mapping[str, Any], plan: Mapping[str, Any], where: str = "") -> Iterator[str]:
    for key in sorted({*known, *plan} - _FOR_PEOPLE):
        before, now = known.get(key), plan.get(key)
        if before == now:
            continue
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differences(before, now, f"{where}{key}.")
        else:
            yield f"{where}{key} ({json.dumps(before, ensure_ascii=False)}, and now {json.dumps(now, ensure_ascii=False)})"


def _fix(known: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    day, today = (((run.get("resolution") or {}).get("options") or {}).get("date") for run in (known, plan))
    if day and day != today:
        return f"pass --date {day}, the day that its prompts show, or take a new --output"
    return "take a new --output, or the same input, tokenizer and options"


def _tokenizer_digest(renderer: Any) -> str:
    """Over the vocabulary, and over what is written for the probes, which tells how text is cut and what the template says."""
    tokenizer, digest = renderer.tokenizer, hashlib.sha256(renderer.proof().written.encode())
    for name in ("get_vocab", "get_added_vocab"):
        tokens = getattr(tokenizer, name, None)
        if callable(tokens):  # some vocabularies have bytes among their texts
            digest.update(repr(sorted((number, repr(text)) for text, number in tokens().items())).encode())
    return digest.hexdigest()[:16]
