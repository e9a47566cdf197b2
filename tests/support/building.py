"""The distributions of this repository, and commands as their users run them."""

from __future__ import annotations

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
META = "rllm-renderer"
"""The distribution without a module: nothing but dependencies."""
FOLDERS = {"rllm-renderer-core": ROOT} | {
    file.parent.name: file.parent for kind in ("plugins", "packages") for file in sorted(ROOT.glob(f"{kind}/*/pyproject.toml"))
}
"""By name, where it lies."""


def run(
    *command: object, check: bool = True, cwd: str | pathlib.Path = "/", **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command in a clean environment: nothing of this source tree on its path."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RLLM_RENDERER_"))}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1", **environment}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 or not check, f"{command}: {done.stdout}\n{done.stderr}"
    return done
