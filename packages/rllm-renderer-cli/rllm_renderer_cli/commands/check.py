"""``rllm-renderer check FILE``: whether a pinned resolution holds here."""

from __future__ import annotations

from typing import Any

import click

from rllm_renderer_core.errors import PinMismatchError, RendererError
from rllm_renderer_core.renderer.resolution import Resolution

from ..files import read_pin
from ..options import load_tokenizer, tokenizer_option
from ..output import echo
from ..wording import one_line


@click.command("check", short_help="Check a pinned resolution against what is installed, or against another.")
@click.argument("file")
@click.argument("other", required=False)
@tokenizer_option
def command(file: str, other: str | None, tokenizer: str | None) -> None:
    """Check the pin in FILE against what is installed here, or against the pin in OTHER.

    With --tokenizer the renderer is built, and what it writes is compared with what the pin's wrote. Without, other sources of
    an upstream than the pin's are a difference, as nothing tells what they write.

    Prints one line for each difference, and exits with status 1 if there is one; status 2 where a file can't be read.
    """
    pin = read_pin(file)
    if other is None:
        differences = differences_here(pin, None if tokenizer is None else load_tokenizer(tokenizer))
    else:
        differences = pin.differences(read_pin(other), mine=file, theirs=other)
    for line in differences:
        echo(line)
    if differences:
        raise SystemExit(1)
    echo(f"{pin.backend}:{pin.renderer} for {pin.model}, {'as in ' + other if other is not None else 'as pinned'}")


def differences_here(pin: Resolution, tokenizer: Any = None) -> list[str]:
    """What differs between a pin and what is installed here, one line each; with a tokenizer, in what is written too."""
    from rllm_renderer_core.resolving.resolver import resolve, select_backend

    # A pin records the type of an image processor alone; nothing is built here, so any object of that name will do.
    processor = pin.options.get("image_processor")
    options: Any = {"image_processor": type(str(processor), (), {})()} if processor else {}
    try:
        if tokenizer is None:
            return select_backend(pin=pin, **options).differences(pin)
        return resolve(pin.model, tokenizer, pin=pin, **options).resolution.differences(pin)
    except PinMismatchError as error:
        return list(error.differences) or [one_line(error)]
    except RendererError as error:
        return [one_line(error)]
