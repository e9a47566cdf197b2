"""This project's own distributions, and the command that installs them.

No package index has them yet, so that a bare ``pip install rllm-renderer-prime`` would fail, or install a stranger's package of
that name: they are installed from the repository.
"""

from __future__ import annotations

import importlib.util
import sys

REPOSITORY = "https://github.com/rllm-org/rllm-renderer"
CORE_DISTRIBUTION = "rllm-renderer-core"

KNOWN_PLUGINS = {
    "prime": "rllm-renderer-prime",
    "minimax-m3": "rllm-renderer-minimax-m3",
    "tinker": "rllm-renderer-tinker",
    "tml": "rllm-renderer-tml",
    "fireworks": "rllm-renderer-fireworks",
}
"""Plugins that are worth installing, by the name of their backend: only for hints such as "not installed, pip install ..."."""

OWN = frozenset({CORE_DISTRIBUTION, *KNOWN_PLUGINS.values(), "rllm-renderer-parser"})
"""Every distribution of this repository."""

_NEEDED = {"rllm-renderer-fireworks": "rllm-renderer-tinker"}


def absent(distribution: str) -> tuple[str, str]:
    """What is wrong with a plugin of this project that isn't found, in two words, and its fix.

    A frozen application may have its module without metadata, by which plugins are found: nothing that pip could mend.
    """
    if getattr(sys, "frozen", False) and importlib.util.find_spec(distribution.replace("-", "_")) is not None:
        return "no metadata", f"bundle its .dist-info folder too (PyInstaller: --copy-metadata {distribution})"
    return "not installed", install_command(distribution)


def install_command(*distributions: str, option: str = "") -> str:
    """The command that installs distributions, as a fix in an error or a hint.

    Args:
        distributions: Their names, with extras as pip takes them; those of others than this project are left to pip's index.
        option: An option of pip's, such as ``"--upgrade"``.
    """
    needed = [_NEEDED[name] for name in distributions if name in _NEEDED and _NEEDED[name] not in distributions]
    return " ".join(filter(None, ("pip install", option, *map(_requirement, (*needed, *distributions)))))


def _requirement(name: str) -> str:
    bare = name.partition("[")[0]
    if bare == CORE_DISTRIBUTION:
        return f"'{name} @ git+{REPOSITORY}'"
    return f"'{name} @ git+{REPOSITORY}#subdirectory=plugins/{bare}'" if bare in OWN else name
