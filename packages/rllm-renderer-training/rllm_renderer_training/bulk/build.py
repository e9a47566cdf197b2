"""A data set to a folder of training sequences, shard by shard, so that a run that was killed goes on where it was.

A shard is a fixed number of input rows. Its files are written under another name and renamed when they are whole: what is
there is finished, and what isn't is done again. Rows are given to the workers as JSON text: in a column of nested values Arrow
would add the keys of other rows as nulls.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rllm_renderer_core.errors import MessageError, OptionError

from .inputs import Row, is_columnar, read_rows, unread_columns
from .mapper import SupervisedMapper
from .plan import plan_of, replace_whole, same_plan

_TYPES = {
    "row": "int64",
    "input_ids": ["int32"],
    "weights": ["float32"],
    "assistant_masks": ["int8"],
    "trained": ["int32"],
    "reason": "string",
    "skipped": "string",
    "unread": ["string"],
    "error": "string",
}


class JsonRows:
    """A mapper whose batches have a row's number in ``row``, and the row in ``text`` and ``fault``, as ``Row`` has it."""

    def __init__(self, mapper: SupervisedMapper, *, columnar: bool) -> None:
        self._mapper, self._columnar, self._process = mapper, columnar, os.getpid()

    def __call__(self, batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if os.getpid() != self._process:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's, which ends its workers
        out: dict[str, list[Any]] = {name: [] for name in SupervisedMapper.COLUMNS}
        for number, *row in zip(batch["row"], batch["text"], batch["fault"], strict=True):
            for record in self._records(number, Row(*row)):
                for name in SupervisedMapper.COLUMNS:
                    out[name].append(record[name])
        return out

    def _records(self, number: int, row: Row) -> list[dict[str, Any]]:
        try:
            value = row.value()
        except MessageError as error:
            return self._mapper.failed(number, str(error))
        return self._mapper.records(value, number, columnar=self._columnar)


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
    plan = plan_of(source, mapper, shard_rows)  # makes the renderer before the workers are forked, which then have it
    same_plan(output / "plan.json", plan)
    rows = read_rows(source)
    number = shard = 0
    while inputs := list(islice(rows, shard_rows)):
        part, rejected = output / f"part-{shard:05d}.parquet", output / f"rejected-{shard:05d}.jsonl"
        if not part.exists():
            _write_shard(inputs, number + 1, mapper, processes, part, rejected, columnar=is_columnar(source))
        number, shard = number + len(inputs), shard + 1
        tell(number)
    manifest = _finish(output, plan, shard, number, unread)
    if manifest["unread"]:
        warnings.warn(f"{source.name}: nobody reads {_told(manifest['unread'])}, which may say how to train", stacklevel=2)
    return manifest


def _told(unread: Mapping[str, int]) -> str:
    return ", ".join(f"{key} ({count} rows)" for key, count in unread.items())


def _write_shard(
    inputs: list[Row],
    first: int,
    mapper: SupervisedMapper,
    processes: int,
    part: pathlib.Path,
    rejected: pathlib.Path,
    *,
    columnar: bool,
) -> None:
    from datasets import Dataset, Features, Sequence, Value

    types = {name: Sequence(Value(kind[0])) if isinstance(kind, list) else Value(kind) for name, kind in _TYPES.items()}
    rows = Dataset.from_dict(
        {
            "row": list(range(first, first + len(inputs))),
            "text": [row.text for row in inputs],
            "fault": [row.fault for row in inputs],
        }
    )
    with _environment_kept(), _interrupt_kept():
        done = rows.map(
            JsonRows(mapper, columnar=columnar),
            batched=True,
            batch_size=64,
            num_proc=processes if processes > 1 and len(inputs) > 1 else None,
            remove_columns=["text", "fault"],
            features=Features(types),
            keep_in_memory=True,
            load_from_cache_file=False,
            new_fingerprint=f"rllm-renderer-{os.getpid()}-{first}",
        )
    table = done.data.table.combine_chunks()
    import pyarrow.compute
    import pyarrow.parquet

    failed = pyarrow.compute.not_equal(table["error"], "")
    lines = [
        json.dumps({"row": row["row"], "reason": row["error"], "data": inputs[row["row"] - first].text}, ensure_ascii=False)
        for row in table.filter(failed).select(["row", "error"]).to_pylist()
    ]
    replace_whole(rejected, lambda file: file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8"))
    kept = table.filter(pyarrow.compute.invert(failed)).drop_columns(["error"])
    replace_whole(part, lambda file: pyarrow.parquet.write_table(kept, file))


@contextmanager
def _environment_kept() -> Iterator[None]:
    """With several processes ``datasets`` leaves a copy as ``os.environ``: who holds the first (rich) sees no later change."""
    environment, parallelism = os.environ, os.environ.get("TOKENIZERS_PARALLELISM")
    try:
        yield
    finally:
        os.environ = environment  # noqa: B003 - the object itself comes back
        if parallelism is None:
            os.environ.pop("TOKENIZERS_PARALLELISM", None)
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = parallelism


@contextmanager
def _interrupt_kept() -> Iterator[None]:
    """Ctrl-C is this process's alone: workers would each write a traceback, and ``datasets`` raises that they don't answer."""
    process, before = os.getpid(), signal.getsignal(signal.SIGINT)

    def interrupt(*signal_and_frame: Any) -> None:
        if os.getpid() == process:  # a forked worker has the handler too
            raise KeyboardInterrupt

    is_ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    try:
        if is_ours:
            signal.signal(signal.SIGINT, interrupt)
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            cause = cause.__context__
        raise
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


def _finish(output: pathlib.Path, plan: dict[str, Any], shards: int, rows: int, columns: Mapping[str, int]) -> dict[str, Any]:
    import pyarrow.compute
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
    replace_whole(output / "manifest.json", lambda file: file.write_text(text, encoding="utf-8"))
    return manifest
