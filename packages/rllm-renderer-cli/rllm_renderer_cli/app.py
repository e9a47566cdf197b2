"""The group of all commands. A command is a module with a click command named ``command``, and one line
in ``COMMANDS``; it is imported when it is called or listed."""

from __future__ import annotations

import difflib
import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from rllm_renderer_core.errors import RendererError, RendererWarning

from . import __version__
from .output import only_output
from .wording import BadInput, Stopped, describe, in_flags

COMMANDS = {
    "plugins": "commands.plugins",
    "explain": "commands.explain",
    "render": "commands.render",
    "sft": "commands.sft",
    "pin": "commands.pin",
    "check": "commands.check",
    "verify": "commands.verify",
    "detect": "commands.detect",
    "learn": "commands.learn",
    "demo": "demo.command",
    "doctor": "doctor.command",
    "new": "commands.new",
}
"""Name of a command to the module of this package that has it, in the order of ``--help``."""


class Commands(click.Group):
    """A group that imports its commands on demand, and says errors of the user's making without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".{COMMANDS[cmd_name]}", __package__).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(COMMANDS)}"
            raise BadInput(f"no command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _warnings_as_lines(), only_output():
                return super().invoke(ctx)
        except click.UsageError as error:
            raise BadInput(error.format_message()) from error
        except RendererError as error:
            raise BadInput(describe(error)) from error
        except KeyboardInterrupt:
            raise Stopped("stopped") from None


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Warnings of this package are for the user: lines on stderr, without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RendererWarning)
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **named: Any) -> None:
            if issubclass(category, RendererWarning):
                click.echo(f"rllm-renderer: warning: {in_flags(str(message))}", err=True)
            else:
                shown(message, category, *where, **named)

        warnings.showwarning = show
        yield


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rllm-renderer")
def cli() -> None:
    """Token-level renderers for RL rollouts: what is installed, what serves a model, and the tokens it gives."""
