"""A data set to a folder of training sequences, shard by shard, so that a run that was killed goes on where it was.

A shard is a fixed number of input rows. Its files are written under another name and renamed when they are whole: what is
there is finished, and what isn't is done again. Rows are given to the workers as JSON text: in a column of nested values Arrow
would add the keys of other rows as nulls.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pathlib
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rllm_renderer_core.errors import MessageError, OptionError

from .inputs import Row, digest_of, is_columnar, read_rows, unread_columns
from .mapper import SupervisedMapper

BATCH = 64
"""Rows that a worker does at once, at most."""
_FOR_PEOPLE = frozenset({"reason", "hints"})
"""What a resolution says beside what it is."""


def build(
    source: pathlib.Path,
    output: pathlib.Path,
    mapper: SupervisedMapper,
    *,
    processes: int = 1,
    shard_rows: int = 20_000,
    tell: Callable[[int], None] = lambda rows: None,
) -> dict[str, Any]:
    """Write ``part-*.parquet``, ``rejected.jsonl`` and ``manifest.json`` into ``output``; returns the manifest, rows from 1.

    Args:
        source: See ``read_rows``.
        output: A new folder, or one of a run with the same input and options, which is gone on with.
        mapper: Applied to each row; its pin goes into the manifest.
        processes: Workers.
        shard_rows: Input rows a shard.
        tell: Called after each shard with the number of input rows that are done.

    Raises:
        OptionError: The folder holds another run; or there are columns that nobody reads, and the mapper is strict.
    """
    unread = unread_columns(source)
    if unread and mapper.strict:
        raise OptionError(f"nobody reads {_told(unread)}", fix="drop these columns, or leave strict out", option="strict")
    output.mkdir(parents=True, exist_ok=True)
    plan = _plan_of(source, mapper, shard_rows)  # makes the renderer before the workers are forked, which then have it
    _same_plan(output / "plan.json", plan)
    rows = read_rows(source)
    number = shard = 0
    with _late_interrupt() as check:
        while inputs := list(islice(rows, shard_rows)):
            part, rejected = output / f"part-{shard:05d}.parquet", output / f"rejected-{shard:05d}.jsonl"
            if not part.exists():
                records = _records(inputs, number + 1, mapper, processes, check, columnar=is_columnar(source))
                _write_shard(inputs, number + 1, records, part, rejected)
            number, shard = number + len(inputs), shard + 1
            tell(number)
            check()
    manifest = _finish(output, plan, shard, number, unread)
    if manifest["unread"]:
        warnings.warn(f"{source.name}: nobody reads {_told(manifest['unread'])}, which may say how to train", stacklevel=2)
    return manifest


def _told(unread: Mapping[str, int]) -> str:
    return ", ".join(f"{key} ({count} rows)" for key, count in unread.items())


def _write_shard(
    inputs: list[Row], first: int, records: Iterator[dict[str, Any]], part: pathlib.Path, rejected: pathlib.Path
) -> None:
    import pyarrow
    import pyarrow.parquet

    kept: list[dict[str, Any]] = []
    lines: list[str] = []
    for record in records:
        if record["error"]:
            row = {"row": record["row"], "reason": record["error"], "data": inputs[record["row"] - first].text}
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            kept.append(record)
    lists = {"input_ids": "int32", "weights": "float32", "assistant_masks": "int8", "trained": "int32", "unread": "string"}
    kinds = {name: pyarrow.list_(getattr(pyarrow, kind)()) for name, kind in lists.items()}
    kinds |= {"row": pyarrow.int64(), "reason": pyarrow.string(), "skipped": pyarrow.string()}
    names = [name for name in SupervisedMapper.COLUMNS if name in kinds]
    table = pyarrow.Table.from_pylist(kept, pyarrow.schema([(name, kinds[name]) for name in names]))
    _replace_whole(rejected, lambda file: file.write_text("".join(lines), encoding="utf-8"))
    _replace_whole(part, lambda file: pyarrow.parquet.write_table(table, file))


def _records(
    inputs: list[Row], first: int, mapper: SupervisedMapper, processes: int, check: Callable[[], None], *, columnar: bool
) -> Iterator[dict[str, Any]]:
    """The mapper's records of these rows, in order, from as many processes; ``check`` is called between batches."""
    size = min(BATCH, -(-len(inputs) // processes))
    jobs = [(mapper, columnar, first + at, inputs[at : at + size]) for at in range(0, len(inputs), size)]
    if processes == 1 or len(jobs) == 1:
        for job in jobs:
            check()
            yield from _records_of(job)
        return
    # A forked worker has the renderer already; elsewhere it resolves one of its own, held to the pin.
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
    with ProcessPoolExecutor(min(processes, len(jobs)), context, _as_worker) as workers:
        try:
            for records in workers.map(_records_of, jobs):
                check()
                yield from records
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise


@contextmanager
def _late_interrupt() -> Iterator[Callable[[], None]]:
    """Ctrl-C is raised by the function that this gives, between two batches, and where the number of finished rows is known.

    Raised at once it would be lost where it comes while a worker is forked (``logging`` holds its lock there, and what is
    raised then is ignored), and the new worker would write a traceback of its own.
    """
    asked: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    is_ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    try:
        if is_ours:
            signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
        yield check
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)
        check()


def _as_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's, which ends its workers
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _records_of(job: tuple[SupervisedMapper, bool, int, list[Row]]) -> list[dict[str, Any]]:
    mapper, columnar, first, rows = job
    records: list[dict[str, Any]] = []
    for number, row in enumerate(rows, first):
        try:
            value = row.value()
        except MessageError as error:
            records += mapper.failed(number, str(error))
        else:
            records += mapper.records(value, number, columnar=columnar)
    return records


def _finish(output: pathlib.Path, plan: dict[str, Any], shards: int, rows: int, columns: Mapping[str, int]) -> dict[str, Any]:
    import pyarrow.parquet

    digest = hashlib.sha256()
    counts = {"rows": rows, "rejected": 0, "sequences": 0, "ids": 0, "trained_ids": 0, "rows_with_skipped_turns": 0}
    unread, last = Counter(columns), -1
    with open(output / "rejected.jsonl.part", "wb") as rejected:
        for shard in range(shards):
            with open(output / f"rejected-{shard:05d}.jsonl", "rb") as lines:
                for line in lines:
                    rejected.write(line)
                    counts["rejected"] += 1
            with pyarrow.parquet.ParquetFile(output / f"part-{shard:05d}.parquet") as file:
                for batch in file.iter_batches(batch_size=256):
                    counts["sequences"] += batch.num_rows
                    for row in batch.to_pylist():
                        digest.update(json.dumps([row["row"], row["input_ids"], row["weights"]]).encode())
                        counts["ids"] += len(row["input_ids"])
                        counts["trained_ids"] += sum(row["assistant_masks"])
                        counts["rows_with_skipped_turns"] += bool(row["skipped"])
                        unread.update(row["unread"] if row["row"] != last else ())
                        last = row["row"]
    os.replace(output / "rejected.jsonl.part", output / "rejected.jsonl")
    manifest = {
        **plan,
        "counts": counts,
        "unread": dict(sorted(unread.items())),
        "parts": [f"part-{at:05d}.parquet" for at in range(shards)],
        "digest": digest.hexdigest(),
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    _replace_whole(output / "manifest.json", lambda file: file.write_text(text, encoding="utf-8"))
    return manifest


# What a run does, as a record in its folder: only a run of the same plan goes on there


def _plan_of(source: pathlib.Path, mapper: SupervisedMapper, shard_rows: int) -> dict[str, Any]:
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


def _same_plan(file: pathlib.Path, plan: Mapping[str, Any]) -> None:
    """Write the plan into a new folder, or refuse one that holds another run."""
    if not file.exists():
        if any(file.parent.glob("part-*")):
            raise OptionError(f"{file.parent} holds parts of an unknown run", fix="take a new --output", option="output")
        _replace_whole(file, lambda part: part.write_text(json.dumps(plan), encoding="utf-8"))
        return
    known = json.loads(file.read_text(encoding="utf-8"))
    if odd := list(_differences(known, plan)):
        fix = "take a new --output, or the same input, tokenizer and options"
        day, today = (((run.get("resolution") or {}).get("options") or {}).get("date") for run in (known, plan))
        if day and day != today:
            fix = f"pass --date {day}, the day that its prompts show, or take a new --output"
        raise OptionError(f"{file.parent} holds a run that differs in {'; '.join(odd)}", fix=fix, option="output")


def _replace_whole(file: pathlib.Path, write: Callable[[pathlib.Path], Any]) -> None:
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


def _tokenizer_digest(renderer: Any) -> str:
    """Over the vocabulary, and over what is written for the probes, which tells how text is cut and what the template says."""
    tokenizer, digest = renderer.tokenizer, hashlib.sha256(renderer.proof().written.encode())
    for name in ("get_vocab", "get_added_vocab"):
        tokens = getattr(tokenizer, name, None)
        if callable(tokens):  # some vocabularies have bytes among their texts
            digest.update(repr(sorted((number, repr(text)) for text, number in tokens().items())).encode())
    return digest.hexdigest()[:16]
