"""One changed copy of rLLM's sources for all tests of a run."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import rllm_changes
import rllm_source


@pytest.fixture(scope="session")
def changed(tmp_path_factory):
    """rLLM's repository with the patch of its revision."""
    return rllm_changes.changed_copy(tmp_path_factory.mktemp("changed") / "rllm")


@pytest.fixture(scope="session")
def gateway(changed):
    """The patched gateway in this process: the module ``rllm_model_gateway``."""
    place = str(changed / rllm_source.GATEWAY.parent)
    sys.path.insert(0, place)
    for name in [name for name in sys.modules if name.partition(".")[0] == "rllm_model_gateway"]:
        del sys.modules[name]
    yield importlib.import_module("rllm_model_gateway")
    sys.path.remove(place)


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


@pytest.fixture
def runs(process, tmp_path):
    """``runs(script, name)``: its last words are "done" and its name, in a process that imports the changed copy."""

    def runs(script, name):
        file = tmp_path / f"{name}.py"
        file.write_text(script)
        result = process("-W", "ignore", file)
        assert result.stdout.split()[-2:] == ["done", name], result.stderr[-4000:]

    return runs
