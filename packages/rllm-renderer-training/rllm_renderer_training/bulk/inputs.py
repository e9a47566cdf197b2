"""The rows of a data set's files, each as JSON text, whatever file they are in."""

from __future__ import annotations

import codecs
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rllm_renderer_core.errors import MessageError, OptionError

from .rows import COLUMNS, CONVERSATIONS, HARMLESS


class Row(NamedTuple):
    """A row of the input."""

    text: str  # its JSON text; where there is a fault, what can be shown of it
    fault: str = ""  # why it can't be read, or ""

    def value(self) -> Mapping[str, Any]:
        """The row as an object; a ``MessageError`` where it isn't one."""
        if self.fault:
            raise MessageError(self.fault)
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise MessageError(f"the row isn't JSON: {error}") from None
        if not isinstance(value, Mapping):
            raise MessageError(f"the row must be an object, not {type(value).__name__}")
        return value


def is_columnar(source: pathlib.Path) -> bool:
    """Whether the rows come from columns, where a mapping has the keys of all rows, as nulls."""
    return source.is_dir() or source.suffix == ".parquet"


def read_rows(source: pathlib.Path) -> Iterator[Row]:
    """The rows of a JSONL or Parquet file, of a JSON file that is an array, or of a folder that ``datasets`` saved.

    Of columns only those of a conversation are read. An array is read into memory whole.

    Raises:
        OptionError: None of these, or a file that can't be read at all.
    """
    if source.is_dir():
        return _of_folder(source)
    if source.suffix == ".parquet":
        return _of_parquet(source)
    if source.suffix in (".jsonl", ".json", ".ndjson"):
        return _of_json(source)
    raise _unusable(
        f"{source.name} is neither a JSONL or Parquet file nor a folder of datasets",
        "name it .jsonl or .parquet, or save it with datasets' save_to_disk",
    )


def _unusable(what: str, fix: str) -> OptionError:
    return OptionError(what, fix=fix, option="DATA")


def unread_columns(source: pathlib.Path) -> dict[str, int]:
    """Columns that nobody reads and that may say how to train, each with how many rows have a value there; nulls are none."""
    counts: dict[str, int] = {}
    if source.is_dir():
        from datasets import load_from_disk

        table = load_from_disk(str(source)).data
        counts = {name: len(table) - table.column(name).null_count for name in table.column_names}
    elif source.suffix == ".parquet":
        import pyarrow.parquet

        file = pyarrow.parquet.read_metadata(source)
        for group in map(file.row_group, range(file.num_row_groups)):
            leaves = [group.column(at) for at in range(group.num_columns)]
            for name in {leaf.path_in_schema.split(".")[0] for leaf in leaves}:
                own = [leaf for leaf in leaves if leaf.path_in_schema.split(".")[0] == name]
                nulls = min(leaf.statistics.null_count or 0 if leaf.statistics else 0 for leaf in own)
                counts[name] = counts.get(name, 0) + max(0, group.num_rows - nulls)
    return {name: count for name, count in counts.items() if count and name not in HARMLESS and name not in COLUMNS}


def digest_of(source: pathlib.Path) -> str:
    """Over the bytes of the file, or of all files of the folder."""
    digest = hashlib.sha256()
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    for path in files:
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _of_folder(source: pathlib.Path) -> Iterator[Row]:
    from datasets import DatasetDict, load_from_disk

    try:
        loaded = load_from_disk(str(source))
    except FileNotFoundError:
        fix = "name one Parquet or JSONL file, or save it with datasets' save_to_disk"
        raise _unusable(f"{source} isn't a folder that datasets saved", fix) from None
    if isinstance(loaded, DatasetDict):
        splits = " or ".join(str(source / name) for name in loaded)
        raise _unusable(f"{source} has several splits, not rows", f"name a split: {splits}")
    plain = loaded.with_format(None)  # rows as the data set would give them to a framework can't be written as JSON
    yield from map(_written, plain.select_columns(_present(source, plain.column_names)))


def _of_parquet(source: pathlib.Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(source)
    except pyarrow.ArrowInvalid as error:
        raise _unusable(f"{source.name} isn't a Parquet file: {error}", "name another") from None
    with file:
        columns = _present(source, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=256, columns=columns):
            yield from map(_written, batch.to_pylist())


def _of_json(source: pathlib.Path) -> Iterator[Row]:
    with source.open("rb") as file:
        start = file.read(4096)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise _unusable(f"{source.name} is UTF-16, and JSON is UTF-8", "save it as UTF-8")
        begin = len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0
        file.seek(begin)
        if source.suffix == ".json" and start[begin:].lstrip().startswith(b"["):
            try:
                rows = json.loads(file.read().decode())
            except (ValueError, RecursionError) as error:
                fix = "repair it, or write a row a line and name it .jsonl"
                raise _unusable(f"{source.name} begins as an array and isn't JSON: {error}", fix) from None
            yield from map(_written, rows)
            return
        for line in file:
            line = line.strip(b" \t\r\n")
            if line:
                yield _decoded(line)


def _decoded(line: bytes) -> Row:
    try:
        return Row(line.decode())
    except UnicodeDecodeError as error:
        return Row(line.decode(errors="backslashreplace"), f"the row isn't UTF-8: {error.reason} at byte {error.start}")


def _written(row: Any) -> Row:
    """A row as JSON text, half a surrogate pair as its escape."""
    fault = ""
    try:
        text = json.dumps(row, ensure_ascii=False)
    except TypeError as error:  # dates, bytes: as text they would be trained as what the data doesn't say
        fault = f"the row can't be written as JSON: {error}"
        text = json.dumps(row, ensure_ascii=False, default=lambda value: f"<{type(value).__name__}>")
    return Row(text.encode(errors="backslashreplace").decode(), fault)


def _present(source: pathlib.Path, names: Iterable[str]) -> list[str]:
    """The columns to read: the others may hold what JSON can't, and needn't be read."""
    known = list(names)
    if not {*CONVERSATIONS} & {*known}:
        what = f"{source.name} has no column {' or '.join(CONVERSATIONS)}; it has {', '.join(known) or 'none'}"
        raise _unusable(what, "rename the column that has the conversations")
    return [name for name in COLUMNS if name in known]
