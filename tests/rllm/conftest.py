"""One changed copy of rLLM's sources for all tests of a run."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import rllm_changes
import rllm_source

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def changed(tmp_path_factory):
    """rLLM's repository with the changes of docs/rllm.md."""
    if reason := rllm_source.missing(repository=True):
        pytest.skip(reason)
    return rllm_changes.changed_copy(tmp_path_factory.mktemp("changed") / "rllm")


@pytest.fixture(scope="session")
def process(changed):
    """``process(*arguments, cwd=, env=)``: a Python process in which the changed copy is importable."""

    def process(*arguments, cwd=changed, env=None, timeout=300):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            env=environment(changed, env),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return process


def environment(changed, more=None):
    """Variables of a process that runs rLLM: the copy first, then what this process can import."""
    path = [changed, changed / "rllm-model-gateway/src", ROOT / "tests/support", *filter(None, sys.path)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RLLM_RENDERER_")}
    # rLLM's tests aren't ours to hold to our warning filters.
    inherited = {name: value for name, value in inherited.items() if name not in ("PYTHONWARNINGS", "PYTEST_ADDOPTS")}
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, path)), "HF_HUB_OFFLINE": "1", **(more or {})}
