"""The command line ``rllm-renderer``."""

from __future__ import annotations

import os
import sys

from rllm_renderer_core.plugin.distributions import install_command

__version__ = "0.1.0"


def main() -> int:
    """Run the command line; without click and rich, say in one line how to get them.

    Returns:
        Exit status 2 where one isn't installed; otherwise click exits by itself.
    """
    try:
        import click as click
        import rich as rich
    except ImportError as error:
        sys.stderr.write(f"rllm-renderer: the command line needs {error.name}: {install_command('rllm-renderer-cli')}\n")
        return 2
    # What libraries say on import ("PyTorch was not found") is no news to whoever asks for a renderer.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from .app import cli

    for stream in (sys.stdout, sys.stderr):
        # Token text can be any character; a terminal or pipe of another encoding must not turn that into a traceback.
        reconfigure = getattr(stream, "reconfigure", None)
        if callable(reconfigure):
            reconfigure(errors="backslashreplace")
    try:
        cli(prog_name="rllm-renderer")
    except OSError as error:  # a full disk behind stdout: said in one line, and not once more when Python closes it
        sys.stderr.write(f"rllm-renderer: can't write the output: {error.strerror or error}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
