"""``rllm-renderer sft DATA``: a data set of conversations to training sequences."""

from __future__ import annotations

import json
import os
import pathlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import click
from rich.text import Text

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.plugin.distributions import install_command

from ..options import check_tokenizer, load_tokenizer, resolve_options, tokenizer_option
from ..output import progress, show, show_json
from ..wording import BadInput, Stopped, one_line
from .render import token_text, visible

FIRST_ROWS = 100
"""Rows that are read before a tokenizer is loaded: if none of them is a conversation, none will be."""
MOST_REASONS = 5
"""Reasons of rejected rows in the summary."""


@click.command("sft", short_help="Turn a data set of conversations into training sequences.")
@click.argument("data", type=click.Path(exists=True, path_type=pathlib.Path))
@click.option("--model", required=True, metavar="NAME", help="The model that is trained.")
@tokenizer_option
@resolve_options
@click.option("--output", type=click.Path(file_okay=False, path_type=pathlib.Path), help="The folder to write.")
@click.option("--train", type=click.Choice(["all", "last", "last_turn"]), default="all", help="Which assistant turns.")
@click.option("--history", type=click.Choice(["template", "verbatim"]), default="template", help="What a turn stands behind.")
@click.option("--part", "parts", multiple=True, type=click.Choice(["reasoning", "content", "tool_calls"]), help="Only these.")
@click.option(
    "--unreachable",
    type=click.Choice(["error", "skip"]),
    default="error",
    help="Reject a row with a turn that the model can't sample from its prompt, or leave out that turn.",
)
@click.option("--strict", is_flag=True, help="Refuse rows with keys that nobody reads and that may say how to train.")
@click.option("--jobs", type=click.IntRange(1), help="Processes; all cores if left out.")
@click.option("--shard-rows", type=click.IntRange(1), default=20_000, help="Input rows a file: what a killed run does again.")
@click.option("--show", "shown", type=click.IntRange(1), metavar="N", help="Print the sequences of N rows; write nothing.")
def command(
    data: pathlib.Path,
    model: str,
    tokenizer: str | None,
    options: dict[str, Any],
    output: pathlib.Path | None,
    train: str,
    history: str,
    parts: tuple[str, ...],
    unreachable: str,
    strict: bool,
    jobs: int | None,
    shard_rows: int,
    shown: int | None,
) -> None:
    """Turn DATA, a JSONL, JSON or Parquet file or a folder of datasets, into training sequences.

    Rows have "messages" and, if there are any, "tools"; or ShareGPT's "conversations". Each assistant turn is trained behind
    the very prompt that serving renders for it. The folder gets part-*.parquet, rejected.jsonl with the reason for each row
    that can't be used, and manifest.json; rows count from 1. A run that was stopped goes on where it was. Exit status 1 where
    nothing can be trained on.
    """
    if (output is None) == (shown is None):
        raise BadInput("give --output DIR to write, or --show N to look")
    # What costs little comes before a tokenizer is loaded.
    if output is not None:
        with _extra():
            import pyarrow as pyarrow
    _check_rows(data)
    if tokenizer is not None:
        check_tokenizer(tokenizer)
    if output is not None:
        _check_writable(output)
    from rllm_renderer_training.bulk.mapper import SupervisedMapper

    from rllm_renderer_core.resolving.resolver import resolve

    loaded = load_tokenizer(tokenizer or model)
    renderer = resolve(model, loaded, **options)
    wanted: dict[str, Any] = {"train": train, "history": history, "unreachable": unreachable}
    if parts:
        wanted["parts"] = sorted(parts)
    if output is None:
        _show(data, shown or 0, renderer, loaded, wanted, strict=strict)
        return
    mapper = SupervisedMapper(
        model,
        tokenizer=tokenizer,
        options=options,
        pin=renderer.resolution.to_dict(),
        supervised_options=wanted,
        strict=strict,
        load=load_tokenizer,
    )
    manifest = _build(data, output, mapper, jobs or os.cpu_count() or 1, shard_rows, f"{renderer.backend}:{renderer.name}")
    show_json({key: manifest[key] for key in ("counts", "parts", "digest")})
    _say_what_came_of_it(manifest["counts"], output)
    if not manifest["counts"]["sequences"]:
        raise SystemExit(1)


@contextmanager
def _extra() -> Iterator[None]:
    """What the extra [sft] brings is needed here."""
    try:
        yield
    except ImportError as error:
        fix = install_command("rllm-renderer-training[sft]")
        raise BadInput(f"this needs {error.name}, which isn't installed\n  fix: {fix}") from error


def _check_rows(data: pathlib.Path) -> None:
    """Refuses a data set none of whose first rows can be read: another kind of file, or other columns."""
    from rllm_renderer_training.bulk.inputs import is_columnar, read_rows
    from rllm_renderer_training.bulk.rows import conversation_of

    reasons = []
    with _extra():
        for row in islice(read_rows(data), FIRST_ROWS):
            try:
                conversation_of(row.value(), columnar=is_columnar(data))
                return
            except RendererError as error:
                reasons.append(one_line(error))
    fix = 'give a JSONL, JSON or Parquet file whose rows have "messages", or ShareGPT\'s "conversations"'
    rows = f"none of the first {FIRST_ROWS} rows" if len(reasons) == FIRST_ROWS else "no row"
    what = f"{rows} of {data} is a conversation: row 1: {reasons[0]}" if reasons else f"{data} has no row"
    raise BadInput(f"{what}\n  fix: {fix}")


def _check_writable(output: pathlib.Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise BadInput(f"can't write {output}: {error.strerror or error}\n  fix: --output with another folder") from error


def _build(data: pathlib.Path, output: pathlib.Path, mapper: Any, jobs: int, shard_rows: int, title: str) -> dict[str, Any]:
    from rllm_renderer_training.bulk.build import build

    done = 0

    def say(rows: int) -> None:
        nonlocal done
        done = rows
        tell(f"{rows:,} rows")

    try:
        with progress(title) as tell:
            return build(data, output, mapper, processes=jobs, shard_rows=shard_rows, tell=say)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {done:,} rows are in {output}; the same command goes on") from None
    except OSError as error:
        what = f"can't write {output}: {error.strerror or error}; {done:,} rows are in it"
        raise BadInput(f"{what}\n  fix: make room, and the same command goes on") from error


def _say_what_came_of_it(counts: dict[str, int], output: pathlib.Path) -> None:
    """A summary on stderr, with the reasons that rejected most rows; those that differ in numbers alone count as one."""
    head = f"{counts['rows']:,} rows gave {counts['sequences']:,} sequences, {counts['trained_ids']:,} ids to train on"
    if not counts["rejected"]:
        click.echo(f"rllm-renderer: {head}", err=True)
        return
    file = output / "rejected.jsonl"
    reasons: Counter[str] = Counter()
    first: dict[str, str] = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            rejected = json.loads(line)
            reason = rejected["reason"].splitlines()[0]
            like = re.sub(r"\d+", "N", reason)
            reasons[like] += 1
            first.setdefault(like, f"{reason} (row {rejected['row']})")
    click.echo(f"rllm-renderer: {head}; {counts['rejected']:,} rows were rejected: {file}", err=True)
    for like, count in reasons.most_common(MOST_REASONS):
        click.echo(f"  {count:,} x {first[like]}", err=True)


def _show(data: pathlib.Path, count: int, renderer: Any, tokenizer: Any, wanted: dict[str, Any], *, strict: bool) -> None:
    """The sequences of the first rows: what is trained in colour, what is context dim."""
    from rllm_renderer_training.bulk.inputs import is_columnar, read_rows
    from rllm_renderer_training.bulk.mapper import NOTHING, examples_of

    for number, row in enumerate(islice(read_rows(data), count), 1):
        try:
            examples = examples_of(renderer, row.value(), wanted, columnar=is_columnar(data), strict=strict)
        except RendererError as error:
            show(Text(f"row {number}: rejected: {one_line(error)}", "bold red"))
            continue
        if not examples and not examples.skipped:
            show(Text(f"row {number}: rejected: {NOTHING}", "bold red"))
        for skipped in examples.skipped:
            show(Text(f"row {number}: left out: {skipped.reason}", "yellow"))
        for at, example in enumerate(examples):
            trained = sum(weight > 0 for weight in example.weights)
            head = f"row {number}, sequence {at + 1} of {len(examples)}: {len(example.token_ids)} ids, {trained} trained"
            body = Text()
            for token, weight in zip(example.token_ids, example.weights, strict=True):
                body.append(visible(token_text(tokenizer, token)), "bold green" if weight else "dim")
            show(Text(f"{head}; {example.reason}", "bold"), body)
