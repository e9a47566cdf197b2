"""One changed copy of rLLM's sources for all tests of a run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import rllm_changes
import rllm_source

# These import rLLM's gateway.
collect_ignore = [] if rllm_source.missing() is None else ["test_gateway.py"]
if rllm_source.missing(repository=True):
    collect_ignore.append("test_matrix.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "changed" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("rllm"))


@pytest.fixture(scope="session")
def changed(tmp_path_factory):
    """rLLM's repository with the patch of its revision."""
    return rllm_changes.changed_copy(tmp_path_factory.mktemp("changed") / "rllm")


@pytest.fixture(scope="session")
def process(changed):
    """``process(*arguments, cwd=, env=)``: a Python process in which the changed copy is importable."""

    def process(*arguments, cwd=changed, env=None, timeout=300):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            env=rllm_source.environment(changed, env),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return process
