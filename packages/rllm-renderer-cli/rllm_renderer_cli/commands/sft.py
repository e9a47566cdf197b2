"""``rllm-renderer sft DATA``: a data set of conversations to training sequences."""

from __future__ import annotations

import os
import pathlib
from itertools import islice
from typing import Any

import click
from rich.text import Text

from rllm_renderer_core.plugin.distributions import install_command

from ..app import BadInput
from ..options import load_tokenizer, resolve_options, tokenizer_option
from ..output import progress, show, show_json
from .render import token_text, visible


@click.command("sft", short_help="Turn a data set of conversations into training sequences.")
@click.argument("data", type=click.Path(exists=True, path_type=pathlib.Path))
@click.option("--model", required=True, metavar="NAME", help="The model that is trained.")
@tokenizer_option
@resolve_options
@click.option("--output", type=click.Path(file_okay=False, path_type=pathlib.Path), help="The folder to write.")
@click.option("--train", type=click.Choice(["all", "last", "last_turn"]), default="all", help="Which assistant turns.")
@click.option("--history", type=click.Choice(["template", "verbatim"]), default="template", help="What a turn stands behind.")
@click.option("--part", "parts", multiple=True, type=click.Choice(["reasoning", "content", "tool_calls"]), help="Only these.")
@click.option("--skip-unreachable", is_flag=True, help="Leave out turns that the model can't say, not their whole row.")
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
    skip_unreachable: bool,
    strict: bool,
    jobs: int | None,
    shard_rows: int,
    shown: int | None,
) -> None:
    """Turn DATA, a JSONL, JSON or Parquet file or a folder of datasets, into training sequences.

    Rows have "messages" and, if there are any, "tools"; or ShareGPT's "conversations". Each assistant turn is trained behind
    the very prompt that serving renders for it. The folder gets part-*.parquet, rejected.jsonl with the reason for each row
    that can't be used, and manifest.json. A run that was killed goes on where it was.
    """
    if (output is None) == (shown is None):
        raise BadInput("give --output DIR to write, or --show N to look")
    from rllm_renderer_training.bulk.mapper import SupervisedMapper

    from rllm_renderer_core.resolving.resolver import resolve

    loaded = load_tokenizer(tokenizer or model)
    renderer = resolve(model, loaded, **options)
    wanted: dict[str, Any] = {"train": train, "history": history, "unreachable": "skip" if skip_unreachable else "error"}
    if parts:
        wanted["parts"] = sorted(parts)
    if shown is not None:
        _show(data, shown, renderer, loaded, wanted, strict=strict)
        return
    assert output is not None
    try:
        import datasets
        from rllm_renderer_training.bulk.build import build
    except ImportError as error:
        raise BadInput(f"{error.name} isn't installed: {install_command('rllm-renderer-training[sft]')}") from error
    datasets.disable_progress_bars()
    mapper = SupervisedMapper(
        model,
        tokenizer=tokenizer,
        options=options,
        pin=renderer.resolution.to_dict(),
        supervised_options=wanted,
        strict=strict,
        load=load_tokenizer,
    )
    with progress(f"{renderer.backend}:{renderer.name}") as tell:
        manifest = build(data, output, mapper, processes=jobs or os.cpu_count() or 1, shard_rows=shard_rows, tell=tell)
    show_json({key: manifest[key] for key in ("counts", "parts", "digest")})


def _show(data: pathlib.Path, count: int, renderer: Any, tokenizer: Any, wanted: dict[str, Any], *, strict: bool) -> None:
    """The sequences of the first rows: what is trained in colour, what is context dim."""
    from rllm_renderer_training.bulk.inputs import is_columnar, read_rows
    from rllm_renderer_training.bulk.mapper import NOTHING, examples_of

    from rllm_renderer_core.errors import RendererError

    for number, row in enumerate(islice(read_rows(data), count)):
        try:
            examples = examples_of(renderer, row.value(), wanted, columnar=is_columnar(data), strict=strict)
        except RendererError as error:
            show(Text(f"row {number}: rejected: {str(error).splitlines()[0]}", "bold red"))
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
