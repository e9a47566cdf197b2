"""Errors in the words of the command line: where a fix names an option of a Python function, the flag that sets it."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Mapping

import click

from rllm_renderer_core.errors import RendererError

_ASSIGNED = re.compile(r"(?<![\w.-])([a-z_]+)=('[^']*'|\"[^\"]*\"|\{[^}]*\}|\w+)?")
"""``thinking=False``, ``backend='prime'``, ``tokenizer=`` with nothing behind it."""
_LEFT_OUT = re.compile(r"\bleave ((?:[a-z_]+, )*[a-z_]+) out\b")


class BadInput(click.ClickException):
    """What the user gave can't be used: said on stderr, exit status 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"rllm-renderer: {self.format_message()}", err=True)


class Stopped(BadInput):
    """Ctrl-C, with the exit status that shells give it."""

    exit_code = 130


def describe(error: RendererError) -> str:
    """The whole text of an error, its fix in flags; a table of verdicts, which ``explain`` shows, is left to that."""
    explanation = getattr(error, "explanation", None)
    if explanation is None:
        return in_flags(str(error))
    return in_flags(str(error).replace(f"\n{explanation}", "")) + f"\n  more: rllm-renderer explain {explanation.model}"


def one_line(error: RendererError) -> str:
    """``describe(error)`` where there is one line for it: in a table, or for one of many rows."""
    return "; ".join(line.strip() for line in describe(error).splitlines())


def in_flags(text: str) -> str:
    """A text with flags for the options that its lines behind the first name: the fix, and what else could be done."""
    first, *rest = text.splitlines() or [""]
    return "\n".join([first, *map(fix_in_flags, rest)])


def fix_in_flags(fix: str) -> str:
    """A fix that names options of the running command as its flags.

    ``"pass tokenizer=, or backend='prime'"`` is ``"pass --tokenizer PATH, or --backend prime"``; ``"leave thinking out"`` is
    ``"leave --thinking/--no-thinking out"``. What isn't an option of the command stays.
    """
    parameters = _parameters()

    def assigned(match: re.Match[str]) -> str:
        parameter = parameters.get(match[1])
        return match[0] if parameter is None else _flag(parameter, match[2])

    def left_out(match: re.Match[str]) -> str:
        names = match[1].split(", ")
        return f"leave {', '.join(_bare(parameters[name]) if name in parameters else name for name in names)} out"

    return _LEFT_OUT.sub(left_out, _ASSIGNED.sub(assigned, fix))


def _parameters() -> Mapping[str, click.Parameter]:
    """The parameters of the running command, by the Python names that they stand for."""
    context = click.get_current_context(silent=True)
    if context is None:
        return {}
    command: click.Command | None = context.command
    if isinstance(command, click.Group):
        command = command.get_command(context, str(context.invoked_subcommand))
    return {} if command is None else {str(parameter.name): parameter for parameter in command.params}


def _flag(parameter: click.Parameter, value: str | None) -> str:
    """The words on the command line that give a parameter this value, which is written as in Python."""
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name if value is None else shlex.quote(value.strip("'\""))
    assert isinstance(parameter, click.Option)
    if parameter.is_flag:
        return (parameter.secondary_opts if value == "False" and parameter.secondary_opts else parameter.opts)[0]
    if value is None:
        choices = getattr(parameter.type, "choices", None)
        return f"{parameter.opts[0]} {'|'.join(choices) if choices else parameter.metavar or 'VALUE'}"
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        read = value
    return f"{parameter.opts[0]} {shlex.quote(read if isinstance(read, str) else json.dumps(read))}"


def _bare(parameter: click.Parameter) -> str:
    return "/".join(parameter.opts + parameter.secondary_opts) if isinstance(parameter, click.Option) else str(parameter.name)
