"""``rllm-renderer explain MODEL``: which backend serves a model, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from ..options import resolve_options, tokenizer_of, tokenizer_option
from ..output import not_installed, show, show_json, table
from ..wording import fix_in_flags

STYLES = {"covers": "green", "unavailable": "yellow"}
IN_A_LINE = ("no match", "disabled", "not installed")
"""Verdicts that are the same of many backends: a line has them all."""


@click.command("explain", short_help="Show which backend serves a model, and why.")
@click.argument("model")
@tokenizer_option
@resolve_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str, tokenizer: str | None, options: dict[str, Any], as_json: bool) -> None:
    """Ask every backend about MODEL and show each verdict and the winner.

    MODEL is a name, or the folder of a checkpoint, whose tokenizer is loaded then.

    Exit status 1 where no backend serves it.
    """
    from rllm_renderer_core.resolving.resolver import explain

    explanation = explain(model, tokenizer_of(model, tokenizer), **options)
    if as_json:
        show_json(explanation.to_dict())
    else:
        show(*_page(explanation))
    if explanation.winner is None:
        raise SystemExit(1)


def _page(explanation: Any) -> Iterator[RenderableType]:
    """The verdicts of backends that know the model, or are faulty, as a table; the others by their verdict, a line each."""
    yield Text.assemble((explanation.model or "(no name)", "bold"), f": {explanation.reason}")
    rows = [verdict for verdict in explanation.verdicts if verdict.verdict not in IN_A_LINE]
    if rows:
        columns = ("", "backend", "priority", "verdict", "renderer", "bridge", "reason")
        yield table(columns, [_row(verdict, verdict.backend == explanation.winner) for verdict in rows])
    for word in IN_A_LINE:
        alike = [verdict for verdict in explanation.verdicts if verdict.verdict == word]
        if word == "not installed":
            yield from not_installed([(verdict.backend, verdict.distribution) for verdict in alike])
        elif alike:
            why = alike[0].reason.rpartition(": ")[2]
            yield Text(f"{word}: {', '.join(verdict.backend for verdict in alike)}{f' ({why})' if why else ''}", "dim")


def _row(verdict: Any, wins: bool) -> tuple[str | Text, ...]:
    covers = verdict.verdict == "covers"
    reasons = (verdict.reason, f"fix: {fix_in_flags(verdict.fix)}" if verdict.fix else "")
    return (
        Text("*", "bold green") if wins else "",
        Text(verdict.backend, "bold green" if wins else ""),
        "-" if verdict.priority is None else str(verdict.priority),
        Text(f"{verdict.verdict} ({verdict.match})" if covers else verdict.verdict, STYLES.get(verdict.verdict, "bold red")),
        verdict.renderer or "-",
        verdict.bridge,
        "; ".join(filter(None, reasons)),
    )
