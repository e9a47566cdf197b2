"""How commands print: rich on a terminal; plain, unwrapped lines in a pipe; JSON where asked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from rllm_renderer_core.plugin.distributions import install_command

PIPE_WIDTH = 10_000
"""Lines in a pipe aren't wrapped: ``grep`` and ``cut`` want them whole."""

LAST_COLUMN = 24
"""Columns that the last one needs; a terminal without them gets each row as a paragraph."""

_stdout: list[Any] = []


@contextmanager
def only_output() -> Iterator[None]:
    """Sends what others print (plugins, what they wrap) to stderr: stdout has the command's own output and nothing else."""
    _stdout.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _stdout.pop()


def stdout() -> Any:
    """Where a command's own output goes."""
    return _stdout[-1] if _stdout else sys.stdout


def echo(text: str) -> None:
    """Print one line of a command's own output."""
    click.echo(text, file=stdout())


def console(*, width: int | None = None) -> Console:
    """A console on the current stdout, without markup: token text is full of square brackets."""
    made = Console(file=stdout(), highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)
    if width is None and not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPE_WIDTH
    return made


def show(*renderables: RenderableType, to: Console | None = None) -> None:
    """Print, without the spaces that rich pads lines with."""
    to = to or console()
    with to.capture() as captured:
        for renderable in renderables:
            to.print(renderable)
    text = captured.get()
    lines = text.split("\n") if to.is_terminal else [line.rstrip() for line in text.split("\n")]
    # click would strip colours that rich chose to print, as under FORCE_COLOR: rich has decided already.
    click.echo("\n".join(lines), nl=False, color=True, file=stdout())


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being done, on a terminal alone; the result is a function that changes it."""
    errors = Console(stderr=True, highlight=False, markup=False)
    if not errors.is_terminal:
        yield lambda text: None
        return
    with errors.status(Text(what)) as status:
        yield lambda text: status.update(Text(f"{what}: {text}"))


def show_json(value: Any) -> None:
    """Print a value as indented JSON."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table | Text:
    """A table without frames, whose last column folds and whose others stay whole; where there is no room for it, a
    paragraph a row, so that a narrow terminal drops nothing."""
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in (title, *(row[at].plain for row in texts))) for at, title in enumerate(columns[:-1])]
    if sum(widths) + 2 * len(widths) + LAST_COLUMN > console().width:
        return _paragraphs(columns, texts)
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns[:-1]:
        grid.add_column(column, no_wrap=True)
    grid.add_column(columns[-1], overflow="fold")
    for row in texts:
        grid.add_row(*row)
    return grid


def _paragraphs(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> Text:
    """A row as ``mark first-cell: title cell, title cell`` and, indented below, its last cell; cells that say nothing are left
    out."""
    lines: list[Text] = []
    for row in rows:
        cells = [(title, cell) for title, cell in zip(columns[:-1], row, strict=False) if cell.plain.strip(" -")]
        mark = f"{cells.pop(0)[1].plain} " if cells and not cells[0][0] else ""
        rest = [Text.assemble(f"{title} ", cell) for title, cell in cells[1:]]
        lines.append(Text.assemble(mark, cells[0][1] if cells else "", ": " if rest else "", Text(", ").join(rest)))
        if row[-1].plain:
            lines.append(Text.assemble("  ", row[-1]))
    return Text("\n").join(lines)


def not_installed(distributions: Sequence[tuple[str, str]]) -> list[Text]:
    """Plugins that could be installed, by the names of backend and distribution, and the one command that installs them all."""
    if not distributions:
        return []
    names = ", ".join(backend for backend, _ in distributions)
    command = install_command(*(distribution for _, distribution in distributions))
    return [Text(f"not installed: {names}", "dim"), Text(f"  {command}", "dim")]
