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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ..errors import OptionError
from .mapper import SupervisedMapper

_TYPES = {
    "row": "int64",
    "input_ids": ["int32"],
    "weights": ["float32"],
    "assistant_masks": ["int8"],
    "trained": ["int32"],
    "reason": "string",
    "skipped": "string",
    "error": "string",
}


class JsonRows:
    """A mapper whose batches have each row as JSON text in the column ``json``, and its number in ``row``."""

    def __init__(self, mapper: SupervisedMapper, *, columnar: bool) -> None:
        self._mapper, self._columnar = mapper, columnar

    def __call__(self, batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {name: [] for name in SupervisedMapper.COLUMNS}
        for number, text in zip(batch["row"], batch["json"], strict=True):
            for record in self._records(number, text):
                for name in SupervisedMapper.COLUMNS:
                    out[name].append(record[name])
        return out

    def _records(self, number: int, text: str) -> list[dict[str, Any]]:
        try:
            row = json.loads(text)
        except ValueError as error:
            return self._mapper.failed(number, f"the row isn't JSON: {error}")
        if not isinstance(row, Mapping):
            return self._mapper.failed(number, f"the row is a {type(row).__name__}, not an object")
        return self._mapper.records(row, number, columnar=self._columnar)


def is_columnar(source: pathlib.Path) -> bool:
    """Whether the rows come from columns, where a mapping has the keys of all rows, as nulls."""
    return source.is_dir() or source.suffix == ".parquet"


def read_rows(source: pathlib.Path) -> Iterator[str]:
    """The rows of a JSONL or Parquet file, or of a folder that ``datasets`` saved, each as JSON text.

    Raises:
        OptionError: None of these.
    """
    if source.is_dir():
        from datasets import load_from_disk

        for row in load_from_disk(str(source)):
            yield json.dumps(row, ensure_ascii=False)
    elif source.suffix == ".parquet":
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    yield json.dumps(row, ensure_ascii=False)
    elif source.suffix in (".jsonl", ".json", ".ndjson"):
        with source.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield line
    else:
        raise OptionError(
            f"{source.name} is neither a JSONL or Parquet file nor a folder of datasets",
            fix="name it .jsonl or .parquet, or save it with datasets' save_to_disk",
            option="DATA",
        )


def build(
    source: pathlib.Path,
    output: pathlib.Path,
    mapper: SupervisedMapper,
    *,
    processes: int = 1,
    shard_rows: int = 20_000,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write ``part-*.parquet``, ``rejected.jsonl`` and ``manifest.json`` into ``output``; returns the manifest.

    Args:
        source: See ``read_rows``.
        output: A new folder, or one of a run with the same input and options, which is gone on with.
        mapper: Applied to each row; its pin goes into the manifest.
        processes: Workers.
        shard_rows: Input rows a shard.
        tell: Gets a line of progress.

    Raises:
        OptionError: The folder holds another run.
    """
    output.mkdir(parents=True, exist_ok=True)
    plan = {
        "schema": 1,
        "source": source.name,
        "source_digest": _digest_of(source),
        "model": mapper.model,
        "resolution": None if mapper.pin is None else dict(mapper.pin),
        "options": mapper.supervised_options,
        "shard_rows": shard_rows,
    }
    plan = json.loads(json.dumps(plan, default=sorted))
    _same_plan(output / "plan.json", plan)
    if processes > 1:
        _ = mapper.renderer  # before the workers are forked, which then have it, shard after shard
    rows = read_rows(source)
    number = shard = 0
    while texts := list(islice(rows, shard_rows)):
        part, rejected = output / f"part-{shard:05d}.parquet", output / f"rejected-{shard:05d}.jsonl"
        if not part.exists():
            _write_shard(texts, number, mapper, processes, part, rejected, columnar=is_columnar(source))
        number, shard = number + len(texts), shard + 1
        tell(f"{number} rows")
    return _finish(output, plan, shard, number)


def _write_shard(
    texts: list[str],
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
    rows = Dataset.from_dict({"row": list(range(first, first + len(texts))), "json": texts})
    with _environment_kept():
        done = rows.map(
            JsonRows(mapper, columnar=columnar),
            batched=True,
            batch_size=64,
            num_proc=processes if processes > 1 and len(texts) > 1 else None,
            remove_columns=["json"],
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
        json.dumps({"row": row["row"], "reason": row["error"], "data": texts[row["row"] - first].strip()}, ensure_ascii=False)
        for row in table.filter(failed).select(["row", "error"]).to_pylist()
    ]
    _replace(rejected, lambda file: file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8"))
    kept = table.filter(pyarrow.compute.invert(failed)).drop_columns(["error"])
    _replace(part, lambda file: pyarrow.parquet.write_table(kept, file))


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


def _finish(output: pathlib.Path, plan: dict[str, Any], shards: int, rows: int) -> dict[str, Any]:
    import pyarrow.compute
    import pyarrow.parquet

    digest = hashlib.sha256()
    counts = {"rows": rows, "rejected": 0, "sequences": 0, "ids": 0, "trained_ids": 0, "rows_with_skipped_turns": 0}
    with open(output / "rejected.jsonl.part", "w", encoding="utf-8") as out:
        for shard in range(shards):
            for line in (output / f"rejected-{shard:05d}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True):
                out.write(line)
                counts["rejected"] += 1
            with pyarrow.parquet.ParquetFile(output / f"part-{shard:05d}.parquet") as file:
                for batch in file.iter_batches(batch_size=256):
                    counts["sequences"] += batch.num_rows
                    for row in batch.to_pylist():
                        digest.update(json.dumps([row["row"], row["input_ids"], row["weights"]]).encode())
                        counts["ids"] += len(row["input_ids"])
                        counts["trained_ids"] += sum(row["assistant_masks"])
                        counts["rows_with_skipped_turns"] += bool(row["skipped"])
    os.replace(output / "rejected.jsonl.part", output / "rejected.jsonl")
    manifest = {
        **plan,
        "counts": counts,
        "parts": [f"part-{at:05d}.parquet" for at in range(shards)],
        "digest": digest.hexdigest(),
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    _replace(output / "manifest.json", lambda file: file.write_text(text, encoding="utf-8"))
    return manifest


def _same_plan(file: pathlib.Path, plan: dict[str, Any]) -> None:
    if not file.exists():
        if any(file.parent.glob("part-*")):
            raise OptionError(f"{file.parent} holds parts of an unknown run", fix="take a new --output", option="output")
        _replace(file, lambda part: part.write_text(json.dumps(plan), encoding="utf-8"))
        return
    known = json.loads(file.read_text(encoding="utf-8"))
    odd = sorted(key for key in {*known, *plan} if known.get(key) != plan.get(key))
    if odd:
        raise OptionError(
            f"{file.parent} holds a run that differs in {', '.join(odd)}",
            fix="take a new --output, or the same input",
            option="output",
        )


def _replace(file: pathlib.Path, write: Callable[[pathlib.Path], Any]) -> None:
    """Write under another name, reach the disk, rename: the file is whole or not there."""
    part = file.with_name(file.name + ".part")
    write(part)
    with open(part, "rb+") as written:
        os.fsync(written.fileno())
    os.replace(part, file)


def _digest_of(source: pathlib.Path) -> str:
    digest = hashlib.sha256()
    files = sorted(each for each in source.rglob("*") if each.is_file()) if source.is_dir() else [source]
    for each in files:
        digest.update(each.name.encode())
        with each.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
