"""``rllm-renderer pin MODEL``: what a model resolves to here, as a record that other processes can be held to."""

from __future__ import annotations

from typing import Any

import click

from ..options import resolve_options, tokenizer_of, tokenizer_option
from ..output import show_json


@click.command("pin", short_help="Print a model's resolution as JSON, to pin other processes to.")
@click.argument("model")
@tokenizer_option
@resolve_options
def command(model: str, tokenizer: str | None, options: dict[str, Any]) -> None:
    """Print the resolution of MODEL as JSON: backend, renderer, options and the versions that its tokens depend on.

    Write it to a file, give the file to every process, and check it where they run:

        rllm-renderer pin Qwen/Qwen3-8B > renderer.json

        rllm-renderer check renderer.json

    With --tokenizer the pin has a digest of what the renderer writes for a set of conversations, so that it holds with every
    version of an upstream's sources that writes the same, and with no other.

    Without --tokenizer the name alone decides, and nothing is loaded; but where MODEL is the folder of a checkpoint, its
    tokenizer is.
    """
    from rllm_renderer_core.resolving.resolver import resolve, select_backend

    loaded = tokenizer_of(model, tokenizer)
    if loaded is None:
        resolution = select_backend(model, **options)
    else:
        resolution = resolve(model, loaded, **options).proof()
    show_json(resolution.to_dict())
