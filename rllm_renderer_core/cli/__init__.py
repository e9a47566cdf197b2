"""The command line ``rllm-renderer``; needs the extra ``cli`` (click and rich)."""

from __future__ import annotations

import sys

INSTALL = "pip install 'rllm-renderer-core[cli]'"


def main() -> int:
    """Run the command line; without click and rich, say in one line how to get them.

    Returns:
        Exit status 2 where the extra isn't installed; otherwise click exits by itself.
    """
    try:
        import click as click
        import rich as rich
    except ImportError as error:
        sys.stderr.write(f"rllm-renderer: the command line needs {error.name}: {INSTALL}\n")
        return 2
    from .app import cli

    for stream in (sys.stdout, sys.stderr):
        # Token text can be any character; a terminal or pipe of another encoding must not turn that into a traceback.
        reconfigure = getattr(stream, "reconfigure", None)
        if callable(reconfigure):
            reconfigure(errors="backslashreplace")
    cli(prog_name="rllm-renderer")
    return 0
