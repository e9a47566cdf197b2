"""The patches of ``integrations/rllm``, applied to a copy of rLLM's sources."""

from __future__ import annotations

import pathlib
import subprocess

import rllm_source

PATCHES = pathlib.Path(__file__).resolve().parents[2] / "integrations/rllm"
PATCH = {False: PATCHES / "9beb6e0f.patch", True: PATCHES / "955a0c29.patch"}
"""By whether the revision has ``rllm/renderers``."""

GATEWAY_TESTS = {
    False: ("test_token_accumulator.py", "test_cumulative_token_mode.py", "test_middleware.py", "test_server.py"),
    True: (
        "test_token_accumulator.py",
        "test_cumulative_token_mode.py",
        "test_cumulative_token_mode_local.py",
        "test_cumulative_tool_call_reconstruction.py",
        "test_middleware.py",
        "test_server.py",
    ),
}
"""rLLM's own tests that apply, by whether the revision has ``rllm/renderers``."""

ENGINE_TESTS = {
    False: ("tests/engine/test_gateway_manager.py",),
    True: (
        "tests/engine/test_tinker_engine.py",
        "tests/engine/test_gateway_manager.py",
        "tests/test_tinker_adapter_cumulative.py",
    ),
}


def changed_copy(target: pathlib.Path) -> pathlib.Path:
    """A copy of ``RLLM_SOURCE`` with the patch of its revision."""
    root = rllm_source.scratch_copy(target)
    patch = PATCH[rllm_source.unified(root)]
    subprocess.run(["git", "apply", str(patch)], cwd=root, check=True)
    return root
