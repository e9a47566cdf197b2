"""``rllm-renderer demo``: a rollout of four turns, bridged, beside what rendering again at each turn gives."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..commands.render import token_text, visible
from ..options import load_tokenizer
from ..output import console, show, show_json
from .episode import Episode, Turn, play
from .tokenizer import MODEL

BEFORE, AFTER = 7, 5
"""Tokens of context around the first id that differs."""
WIDTH = 120
INTRODUCTION = Text(
    "A scripted rollout. Its prompts extend the ids that were sampled; rendering the conversation again would change them.",
    "dim",
)


@click.command("demo")
@click.option("--model", metavar="NAME", help="A hub name or a folder instead of the bundled vocabulary; needs transformers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str | None, as_json: bool) -> None:
    """Play a tool-using episode of four turns, offline.

    At each turn the rollout extends the ids that it has. Beside it stands what rendering the whole conversation again would
    give, and the first id that it would change.
    """
    from rllm_renderer_core.resolving.resolver import resolve

    tokenizer = load_tokenizer(model or "demo")
    renderer = resolve(model, tokenizer) if model else resolve(MODEL, tokenizer, backend="prime")
    episode = play(renderer, tokenizer)
    if as_json:
        show_json(_as_json(renderer, episode))
        return
    terminal = console()
    width = min(terminal.width, WIDTH) if terminal.is_terminal else WIDTH
    show(*_page(renderer, tokenizer, episode), to=console(width=width))


def _page(renderer: Any, tokenizer: Any, episode: Episode) -> list[RenderableType]:
    upstream = ", ".join(f"{name} {version}" for name, version in renderer.resolution.upstream.items())
    by = f"{renderer.backend}:{renderer.name}" + (f" ({upstream})" if upstream else "")
    page: list[RenderableType] = [Text.assemble((renderer.resolution.model, "bold"), f", rendered by {by}"), INTRODUCTION]
    for number, turn in enumerate(episode.turns, 1):
        page += [Text(), _turn(number, turn, tokenizer)]
    return [*page, Text(), _sum(episode)]


def _turn(number: int, turn: Turn, tokenizer: Any) -> RenderableType:
    rows = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows.add_column(style="dim", no_wrap=True, min_width=len("re-render"))
    rows.add_column(overflow="fold")
    for message in turn.new:
        rows.add_row(message["role"], Text(message["content"]))
    rows.add_row("prompt", _prompt(number, turn))
    if number > 1:
        rows.add_row("re-render", _rerender(turn))
        if turn.breaks:
            rows.add_row("  was", _around(tokenizer, turn.had, turn.kept, "bold green"))
            rows.add_row("  becomes", _around(tokenizer, turn.rendered, turn.kept, "bold red"))
    rows.add_row("sampled", _sampled(turn))
    return Group(Text(f"Turn {number}", "bold cyan"), Padding(rows, (0, 0, 0, 2)))


def _prompt(number: int, turn: Turn) -> Text:
    if number == 1:
        return Text(f"{len(turn.prompt)} ids")
    if turn.declined is not None:
        return Text(f"{len(turn.prompt)} ids, a new segment: {turn.declined}", "red")
    new = len(turn.prompt) - turn.previous
    kept = f" keeps all {turn.previous} previous ids and adds {new}"
    return Text.assemble(f"{len(turn.prompt)} ids: ", ("bridge", "bold green"), kept)


def _rerender(turn: Turn) -> Text:
    if not turn.breaks:
        return Text(f"{len(turn.rendered)} ids, keeps all {len(turn.had)} previous ids")
    where = f" at id {turn.kept} of {len(turn.had)} previous ids"
    return Text.assemble(f"{len(turn.rendered)} ids, ", ("differs", "bold red"), where)


def _sampled(turn: Turn) -> Text:
    text = Text(f"{len(turn.completion)} ids: ")
    if turn.parsed.reasoning_content:
        text.append(f"({turn.parsed.reasoning_content.strip()}) ", "italic dim")
    calls = []
    for call in turn.parsed.tool_calls:
        shown = call.arguments
        if isinstance(shown, dict):
            shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in shown.items())
        calls.append(f"{call.name}({shown})")
    return text.append(" ".join([part for part in (turn.parsed.content.strip(), *calls) if part]))


def _around(tokenizer: Any, ids: list[int], at: int, style: str) -> Text:
    """The id at a place, and its text in brackets, in its context."""

    def text(some: list[int]) -> str:
        return visible(str(tokenizer.decode(some, skip_special_tokens=False))) if some else ""

    here = visible(token_text(tokenizer, ids[at])) if at < len(ids) else "end"
    return Text.assemble(
        (f"{ids[at]:<7}" if at < len(ids) else " " * 7, "dim"),
        ("..." if at > BEFORE else "", "dim"),
        text(ids[max(0, at - BEFORE) : at]),
        (f"[{here}]", style),
        text(ids[at + 1 : at + 1 + AFTER]),
        ("..." if at + 1 + AFTER < len(ids) else "", "dim"),
    )


def _sum(episode: Episode) -> RenderableType:
    bridged = [len(segment.token_ids) for segment in episode.rollout.segments]
    rendered = episode.segments_rendered()
    return Group(
        Text.assemble((f"{_count(len(bridged))} bridged", "bold green"), f": {sum(bridged)} ids to train on"),
        Text.assemble((f"{_count(len(rendered))} re-rendered", "bold red"), f": {sum(rendered)} ids to train on"),
    )


def _count(segments: int) -> str:
    return f"{segments} segment{'' if segments == 1 else 's'}"


def _as_json(renderer: Any, episode: Episode) -> dict[str, Any]:
    return {
        "resolution": renderer.resolution.to_dict(),
        "turns": [
            {
                "prompt": len(turn.prompt),
                "sampled": len(turn.completion),
                "kept_by_bridge": turn.previous if turn.declined is None else None,
                "declined": turn.declined,
                "rerendered": len(turn.rendered),
                "previous": len(turn.had),
                "first_difference": turn.kept if turn.breaks else None,
            }
            for turn in episode.turns
        ],
        "segments_bridged": len(episode.rollout.segments),
        "segments_rerendered": len(episode.segments_rendered()),
    }
