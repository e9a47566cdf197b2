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

from ..options import load_tokenizer, name_of, read_text, resolve_options, tokenizer_option, write_text
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
            out = renderer.render(messages, tools=tools, add_generation_prompt=generation_prompt)
        ids = list(out.token_ids)
        if as_ids:
            echo(" ".join(map(str, ids)))
        elif as_html is not None:
            _write_page(as_html, renderer, messages, out)
        elif as_json:
            value = {
                **({"conversation": where} if where else {}),
                "resolution": renderer.resolution.to_dict(),
                "token_ids": ids,
                "tokens": [token_text(loaded, token) for token in ids],
                "message_indices": out.message_indices,
                "sampled_mask": out.sampled_mask,
            }
            show_json(value) if not where else echo(json.dumps(value, ensure_ascii=False))
        else:
            show(*([""] if at else []), *_page(where, renderer, messages, out, [token_text(loaded, token) for token in ids]))


@contextmanager
def _at(where: str) -> Iterator[None]:
    """What goes wrong with one of several conversations says which."""
    try:
        yield
    except RendererError as error:
        if not where:
            raise
        raise BadInput(f"{where}: {one_line(error)}") from error


def _write_page(target: str, renderer: Any, messages: list[Any], out: Any) -> None:
    from rllm_renderer_training.page.page import rendered_page

    page = rendered_page(renderer, messages, out)
    if target == "-":
        stdout().write(page)
        return
    write_text(target, page)


def _page(where: str, renderer: Any, messages: list[Any], out: Any, tokens: list[str]) -> Iterator[RenderableType]:
    """One line on the whole, and a table of the runs of tokens of one message and kind."""
    indices = out.message_indices or [None] * len(tokens)
    sampled = out.sampled_mask or [None] * len(tokens)
    rows = []
    position = 0
    for (index, is_sampled), run in itertools.groupby(zip(indices, sampled, tokens, strict=True), key=lambda each: each[:2]):
        texts = [text for _, _, text in run]
        colour = COLOURS[index % len(COLOURS)] if index is not None and index >= 0 else ""
        role = messages[index]["role"] if index is not None and 0 <= index < len(messages) else ""
        rows.append(
            (
                f"{position}-{position + len(texts) - 1}",
                Text("?" if index is None else "-" if index < 0 else f"{index} {role}", colour),
                "?" if is_sampled is None else Text("sampled", "bold") if is_sampled else Text("scaffold", "dim"),
                _run(texts, colour, dim=is_sampled is False and (index is None or index < 0)),
            )
        )
        position += len(texts)
    count = "attribution unknown" if out.sampled_mask is None else f"{sum(each is True for each in sampled)} sampled"
    title = f"{renderer.backend}:{renderer.name} for {renderer.resolution.model}, {len(tokens)} tokens, {count}"
    yield Text(f"{where}: {title}" if where else title, "bold")
    yield table(("tokens", "message", "kind", "text"), rows)


Talk = tuple[str, list[Any], "list[Any] | None"]
"""Where a conversation is (empty where it is all of its file), its messages and its tools."""


def read_talks(file: str) -> list[Talk]:
    """The conversation of a JSON file, or those of a JSONL file, one a line; ``-`` is stdin."""
    text, name = read_text(file), name_of(file)
    try:
        return [_talk("", json.loads(text), name)]
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2 or not _is_json(lines[0][1]):
            raise BadInput(f"{name} isn't JSON: {error}") from error
    out = []
    for number, line in lines:
        where = f"line {number}"
        try:
            out.append(_talk(where, json.loads(line), f"{name}, {where}"))
        except ValueError as error:
            raise BadInput(f"{name}, {where} isn't JSON: {error}") from error
    return out


def _talk(where: str, value: Any, name: str) -> Talk:
    tools = None
    if isinstance(value, dict):
        if "messages" not in value:
            raise BadInput(f'{name} holds an object without "messages"')
        value, tools = value["messages"], value.get("tools")
    if not isinstance(value, list):
        raise BadInput(f"{name} must hold a list of messages, not {type(value).__name__}")
    if not value:
        raise BadInput(f"{name} holds no message")
    if tools is not None and not isinstance(tools, list):
        raise BadInput(f"{name}: tools must be a list, not {type(tools).__name__}")
    return where, value, tools


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def token_text(tokenizer: Any, token: int) -> str:
    """One token's text; bytes that aren't a whole character come out as the replacement character."""
    return str(tokenizer.decode([token], skip_special_tokens=False))


def visible(text: str) -> str:
    """Text on one line: line breaks and tabs as they are written in code."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _run(texts: list[str], colour: str, *, dim: bool) -> Text:
    style = f"{colour} dim".strip() if dim else colour
    out = Text()
    for at, text in enumerate(texts):
        out.append("|" if at else "", "dim")
        out.append(visible(text), style)
    return out
