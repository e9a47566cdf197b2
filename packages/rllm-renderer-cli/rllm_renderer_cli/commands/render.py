"""``rllm-renderer render``: messages to tokens, with the message that each belongs to and whether it would be sampled."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from rllm_renderer_core.errors import RendererError

from ..files import name_of, read_talks, write_text
from ..options import load_tokenizer, resolve_options, tokenizer_option
from ..output import echo, show, show_json, stdout, table
from ..wording import BadInput, one_line

COLOURS = ("cyan", "yellow", "magenta", "green", "blue")
"""One colour a message, by turns."""


@click.command("render")
@click.argument("file", default="-")
@click.option("--model", metavar="NAME", help="The model; the tokenizer's own name if left out.")
@tokenizer_option
@resolve_options
@click.option("--generation-prompt", is_flag=True, help="End with the opener of the next assistant turn.")
@click.option("--ids", "as_ids", is_flag=True, help="Print the ids alone, on one line.")
@click.option("--json", "as_json", is_flag=True, help="Print ids, tokens and attribution as JSON.")
@click.option("--html", "as_html", metavar="FILE", help="Write a page of HTML to FILE; - is stdout.")
def command(
    file: str,
    model: str | None,
    tokenizer: str | None,
    options: dict[str, Any],
    generation_prompt: bool,
    as_ids: bool,
    as_json: bool,
    as_html: str | None,
) -> None:
    """Render messages from FILE, or stdin.

    FILE holds a JSON list of messages, or an object with "messages" and, if there are any, "tools"; or JSONL with one of these
    on each line, which are rendered one after the other (--json: a line of JSON for each). Each line of the output is
    a run of tokens, parted by "|", of one message: sampled by the model, or scaffold around it.
    """
    from rllm_renderer_core.normal_form.messages import normalize_messages
    from rllm_renderer_core.normal_form.tools import normalize_tools
    from rllm_renderer_core.resolving.resolver import resolve

    talks = read_talks(file)
    for where, messages, tools in talks:  # before a tokenizer is loaded, which may take long
        with _at(where):
            normalize_messages(messages)
            normalize_tools(tools)
    if model is None and tokenizer is None:
        raise BadInput("which model? give --model NAME, --tokenizer PATH or both")
    if as_html is not None and len(talks) > 1:
        raise BadInput(f"--html makes a page of one conversation, and {name_of(file)} holds {len(talks)}")
    loaded = load_tokenizer(tokenizer or str(model))
    renderer = resolve(model, loaded, **options)
    for at, (where, messages, tools) in enumerate(talks):
        with _at(where):
            rendered = renderer.render(messages, tools=tools, add_generation_prompt=generation_prompt)
        ids = list(rendered.token_ids)
        if as_ids:
            echo(" ".join(map(str, ids)))
        elif as_html is not None:
            from rllm_renderer_training.page.page import rendered_page

            page = rendered_page(renderer, messages, rendered)
            if as_html == "-":
                stdout().write(page)
            else:
                write_text(as_html, page)
        elif as_json:
            value = {
                **({"conversation": where} if where else {}),
                "resolution": renderer.resolution.to_dict(),
                "token_ids": ids,
                "tokens": [token_text(loaded, token) for token in ids],
                "message_indices": rendered.message_indices,
                "sampled_mask": rendered.sampled_mask,
            }
            show_json(value) if not where else echo(json.dumps(value, ensure_ascii=False))
        else:
            tokens = [token_text(loaded, token) for token in ids]
            show(*([""] if at else []), *_page(where, renderer, messages, rendered, tokens))


@contextmanager
def _at(where: str) -> Iterator[None]:
    """What goes wrong with one of several conversations says which."""
    try:
        yield
    except RendererError as error:
        if not where:
            raise
        raise BadInput(f"{where}: {one_line(error)}") from error


def _page(where: str, renderer: Any, messages: list[Any], rendered: Any, tokens: list[str]) -> Iterator[RenderableType]:
    """One line on the whole, and a table of the runs of tokens of one message and kind."""
    indices = rendered.message_indices or [None] * len(tokens)
    sampled = rendered.sampled_mask or [None] * len(tokens)
    rows = []
    position = 0
    for (index, is_sampled), run in itertools.groupby(zip(indices, sampled, tokens, strict=True), key=lambda token: token[:2]):
        texts = [shown for _, _, shown in run]
        colour = COLOURS[index % len(COLOURS)] if index is not None and index >= 0 else ""
        role = messages[index]["role"] if index is not None and 0 <= index < len(messages) else ""
        message = Text("?" if index is None else "-" if index < 0 else f"{index} {role}", colour)
        kind = "?" if is_sampled is None else Text("sampled", "bold") if is_sampled else Text("scaffold", "dim")
        text = _run(texts, colour, dim=is_sampled is False and (index is None or index < 0))
        rows.append((f"{position}-{position + len(texts) - 1}", message, kind, text))
        position += len(texts)
    count = "attribution unknown" if rendered.sampled_mask is None else f"{sum(mark is True for mark in sampled)} sampled"
    title = f"{renderer.backend}:{renderer.name} for {renderer.resolution.model}, {len(tokens)} tokens, {count}"
    yield Text(f"{where}: {title}" if where else title, "bold")
    yield table(("tokens", "message", "kind", "text"), rows)


def token_text(tokenizer: Any, token: int) -> str:
    """One token's text; bytes that aren't a whole character come out as the replacement character."""
    return str(tokenizer.decode([token], skip_special_tokens=False))


def visible(text: str) -> str:
    """Text on one line: line breaks and tabs as they are written in code."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _run(texts: list[str], colour: str, *, dim: bool) -> Text:
    style = f"{colour} dim".strip() if dim else colour
    return Text("|", "dim").join(Text(visible(text), style) for text in texts)
