"""This project's own distributions, and the command that installs them.

No package index has them yet, so that a bare ``pip install rllm-renderer-prime`` would fail, or install a stranger's package of
that name: they are installed from the repository.
"""

from __future__ import annotations

import importlib.util
import sys

REPOSITORY = "https://github.com/rllm-org/rllm-renderer"
CORE_DISTRIBUTION = "rllm-renderer-core"
TEMPLATE_DISTRIBUTION = "rllm-renderer-template"

KNOWN_PLUGINS = {name: f"rllm-renderer-{name}" for name in ("prime", "minimax-m3", "tinker", "tml", "fireworks")}
KNOWN_PLUGINS["chat-template"] = TEMPLATE_DISTRIBUTION
"""Plugins that are worth installing, by the name of their backend: only for hints such as "not installed, pip install ..."."""

_PACKAGES = ("rllm-renderer", "rllm-renderer-training", "rllm-renderer-cli", "rllm-renderer-rllm", "rllm-renderer-verl")
"""Distributions that use a renderer; they lie in packages/, plugins in plugins/."""

OWN = frozenset({CORE_DISTRIBUTION, *KNOWN_PLUGINS.values(), *_PACKAGES})
"""Every distribution of this repository."""

_NEEDED = {
    "rllm-renderer-fireworks": ("rllm-renderer-template", "rllm-renderer-tinker"),
    **dict.fromkeys(("rllm-renderer-tinker", "rllm-renderer-tml", "rllm-renderer-prime"), ("rllm-renderer-template",)),
    **dict.fromkeys(("rllm-renderer-cli", "rllm-renderer-rllm"), ("rllm-renderer-template", "rllm-renderer-training")),
    "rllm-renderer-verl": ("rllm-renderer-training",),
    "rllm-renderer": ("rllm-renderer-template", "rllm-renderer-training", "rllm-renderer-cli"),
}
"""What of this repository a distribution needs beside the core, which no index has either; in the order of installation."""


def absent(distribution: str) -> tuple[str, str]:
    """What is wrong with a plugin of this project that isn't found, in two words, and its fix.

    A frozen application may have its module without metadata, by which plugins are found: nothing that pip could mend.
    """
    if getattr(sys, "frozen", False) and importlib.util.find_spec(distribution.replace("-", "_")) is not None:
        return "no metadata", f"bundle its .dist-info folder too (PyInstaller: --copy-metadata {distribution})"
    return "not installed", install_command(distribution)


def install_command(*distributions: str, option: str = "") -> str:
    """The command that installs distributions, with extras as pip takes them; others than this project's from pip's index."""
    needed = [each for name in distributions for each in _NEEDED.get(name.partition("[")[0], ())]
    wanted = dict.fromkeys((*(each for each in needed if each not in distributions), *distributions))
    return " ".join(filter(None, ("pip install", option, *map(_requirement, wanted))))


def _requirement(name: str) -> str:
    bare = name.partition("[")[0]
    if bare == CORE_DISTRIBUTION:
        return f"'{name} @ git+{REPOSITORY}'"
    folder = "packages" if bare in _PACKAGES else "plugins"
    return f"'{name} @ git+{REPOSITORY}#subdirectory={folder}/{bare}'" if bare in OWN else name
