"""``rllm-renderer learn MODEL``: what the learned parser knows of a checkpoint's chat template, and what it can't prove."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from ..files import write_text
from ..options import load_tokenizer
from ..output import progress, show, show_json, table
from ..wording import BadInput

if TYPE_CHECKING:
    from rllm_renderer_template.parser.learned import LearnedParser


@click.command("learn", short_help="Show what is learned of a chat template: delimiters, argument style, proofs.")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--response-template",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was learned to this file as a response_template for transformers' parse_response, proven by its engine.",
)
def command(model: str, as_json: bool, path: Path | None) -> None:
    """Learn a parser of completions from the chat template of MODEL, a folder or a hub name, and show it.

    Exit status 1 where no way of reading tool calls is proven, or no response template can be written.
    """
    from rllm_renderer_template.chat_template.renderer import ChatTemplateRenderer

    from rllm_renderer_core.normal_form.tokenizer import chat_template

    tokenizer = load_tokenizer(model)
    if chat_template(tokenizer) is None:
        raise BadInput(f"{model} has no chat template: there is nothing to learn from")
    with progress("learning"):
        parser = ChatTemplateRenderer(tokenizer, {}).parser
        summary = str(parser)
    stops = tokenizer.convert_ids_to_tokens(sorted(parser.stop_ids))
    if as_json:
        learned = ("parses_tool_calls", "why_no_tool_calls", "arguments", "reasoning", "delimiters")
        value = {"model": model, "summary": summary, **{name: getattr(parser, name) for name in learned}}
        show_json({**value, "stops": stops, "proofs": parser.proofs, "limits": list(parser.limits)})
    else:
        rows = [(place, repr(literal)) for place, literal in parser.delimiters.items()]
        rows.append(("stops", ", ".join(map(repr, stops))))
        rows += [("not proven", limit) for limit in parser.limits]
        show(Text(f"{model}: {summary}"), table(("part", "text"), rows))
    if path is not None:
        _write(parser, path)
    if not parser.parses_tool_calls:
        raise SystemExit(1)


def _write(parser: LearnedParser, path: Path) -> None:
    from rllm_renderer_template.parser.calls.attempt import Declined

    try:
        with progress("proving the response template"):
            template = parser.response_template()
    except Declined as declined:
        raise BadInput(f"no response template: {declined}") from None
    write_text(str(path), json.dumps(template, indent=2, ensure_ascii=False) + "\n")
    click.echo(f"wrote {path}: put it into tokenizer_config.json as response_template", err=True)
