"""``rllm-renderer explain MODEL``: which backend serves a model, and why."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from ..options import resolve_options, tokenizer_of, tokenizer_option
from ..output import show, show_json, table

STYLES = {"covers": "green", "no match": "dim", "not installed": "dim", "disabled": "yellow", "unavailable": "yellow"}


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
        rows: list[tuple[str | Text, ...]] = []
        for each in explanation.verdicts:
            covers = each.verdict == "covers"
            wins = each.backend == explanation.winner
            reasons = (each.reason, f"fix: {each.fix}" if each.fix else "")
            rows.append(
                (
                    Text("*", "bold green") if wins else "",
                    Text(each.backend, "bold green" if wins else ""),
                    "-" if each.priority is None else str(each.priority),
                    Text(f"{each.verdict} ({each.match})" if covers else each.verdict, STYLES.get(each.verdict, "bold red")),
                    each.renderer or "-",
                    each.bridge,
                    "; ".join(filter(None, reasons)) or "-",
                )
            )
        show(
            Text.assemble((model or "(no name)", "bold"), f": {explanation.reason}"),
            table(("", "backend", "priority", "verdict", "renderer", "bridge", "reason"), rows),
        )
    if explanation.winner is None:
        raise SystemExit(1)
