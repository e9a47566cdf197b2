"""``rllm-renderer check FILE``: whether a pinned resolution holds here."""

from __future__ import annotations

import click

from ..options import load_tokenizer, read_pin, tokenizer_option
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
    from rllm_renderer_core.errors import PinMismatchError, RendererError
    from rllm_renderer_core.resolving.resolver import resolve, select_backend

    pin = read_pin(file)
    if other is not None:
        differences = pin.differences(read_pin(other), mine=file, theirs=other)
    else:
        # A pin records the type of an image processor alone; nothing is built here, so any object of that name will do.
        processor = pin.options.get("image_processor")
        more = {"image_processor": type(str(processor), (), {})()} if processor else {}
        try:
            if tokenizer is None:
                differences = select_backend(pin=pin, **more).differences(pin)
            else:
                differences = resolve(pin.model, load_tokenizer(tokenizer), pin=pin, **more).resolution.differences(pin)
        except PinMismatchError as error:
            differences = list(error.differences) or [one_line(error)]
        except RendererError as error:
            differences = [one_line(error)]
    for line in differences:
        echo(line)
    if differences:
        raise SystemExit(1)
    echo(f"{pin.backend}:{pin.renderer} for {pin.model}, {'as in ' + other if other is not None else 'as pinned'}")
