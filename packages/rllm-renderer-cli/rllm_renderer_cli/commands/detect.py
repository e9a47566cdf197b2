"""``rllm-renderer detect --tokenizer PATH``: which renderers give the ids of a tokenizer's chat template."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text
from rllm_renderer_template.parity.report import Outcome

from ..options import RESOLVE, load_tokenizer
from ..output import progress, show, show_json, table
from ..wording import BadInput

SHORT = {"agrees": "agree", "differs": "differ", "the renderer declines": "declined"}


@click.command("detect", short_help="Find the renderer of a checkpoint by its chat template.")
@click.option("--tokenizer", metavar="PATH", required=True, help="The checkpoint's tokenizer: a folder or a hub name.")
@click.option("--model", metavar="NAME", help="The model's name; the tokenizer's own if left out.")
@RESOLVE["thinking"]
@RESOLVE["chat_template_kwargs"]
@click.option("--all", "everything", is_flag=True, help="Show also the renderers that can't be built on this tokenizer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    tokenizer: str,
    model: str | None,
    thinking: bool | None,
    chat_template_kwargs: dict[str, Any] | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Try every renderer of every backend on a tokenizer, against its chat template, and show how many probes each equals.

    The first that equals all of them is what resolve finds where no backend covers the model's name. Exit status 1 where none
    does.
    """
    from rllm_renderer_template.parity.comparison import Budget
    from rllm_renderer_template.parity.detection import Tried, nearest, refusal, try_all

    from rllm_renderer_core.plugin.discovery import load_backends
    from rllm_renderer_core.resolving.request import Request

    loaded = load_tokenizer(tokenizer)
    request = Request.make(model, loaded, {"backend": None, "thinking": thinking, "chat_template_kwargs": chat_template_kwargs})
    query = request.query(loaded)
    budget = Budget(float("inf"))
    tried: list[Tried] = []
    with progress("trying") as say:
        why_not = refusal(query, budget)
        if why_not is not None:
            raise BadInput(why_not)
        for asked in load_backends().registered:
            tried += try_all(asked, query, budget, say)
    winner = next((candidate for candidate in tried if candidate.passed), None)
    name = request.model or "model"
    pin = None
    if winner is not None:
        pin = f"resolve({name!r}, tokenizer, backend={winner.registered.backend.name!r}, renderer={winner.coverage.renderer!r})"
    if as_json:
        found = {"model": name, "winner": None if winner is None else winner.name, "pin": pin}
        show_json({**found, "candidates": [candidate.to_dict() for candidate in tried]})
    else:
        shown = sorted(
            (candidate for candidate in tried if everything or candidate.report is not None),
            key=lambda one: (not one.passed, -(one.report.equal if one.report is not None else -1)),
        )
        page: list[RenderableType] = []
        if shown:
            columns = ("", "renderer", "probes", "bridges", "ms", "why not")
            page.append(table(columns, [_row(candidate, candidate is winner) for candidate in shown]))
        hidden = len(tried) - len(shown)
        if hidden:
            page.append(Text(f"{hidden} more can't be built on this tokenizer (--all shows them)", "dim"))
        page.append(Text(pin, "bold green") if pin else Text(nearest(tried), "bold red"))
        show(*page)
    if winner is None:
        raise SystemExit(1)


def _row(tried: Any, wins: bool) -> tuple[str | Text, ...]:
    report = tried.report
    counts = Counter(bridge.outcome.value for bridge in tried.bridges)
    bridges = ", ".join(f"{count} {SHORT.get(outcome, outcome)}" for outcome, count in counts.most_common())
    why = tried.error
    if report is not None:
        differing = [result.probe for result in report.results if result.difference is not None]
        refused = [result.probe for result in report.having(Outcome.RENDERER_REFUSES)]
        if differing:
            why = f"first on {differing[0]!r}"
        elif refused:
            why = f"refuses {', '.join(map(repr, refused))}"
    return (
        Text("*", "bold green") if wins else "",
        Text(tried.name, "bold green" if wins else "green" if tried.passed else ""),
        "-" if report is None else f"{report.equal} of {report.accepted}",
        bridges or "-",
        str(round(tried.seconds * 1000)),
        why or "-",
    )
