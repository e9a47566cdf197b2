"""rLLM's own tests, on a copy of its sources with the patch of its revision, against our objects."""

from __future__ import annotations

import re

import pytest
import real_tokenizers
import rllm_source
from rllm_changes import ENGINE_TESTS, GATEWAY_TESTS


def passed(result):
    """The number of tests that passed, where none failed."""
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    return int(re.search(r"(\d+) passed", result.stdout)[1])


def test_gateway_unit_tests_with_our_wrapper_as_their_renderer(changed, process):
    files = [f"tests/unit/{name}" for name in GATEWAY_TESTS[rllm_source.unified(changed)]]
    result = process("-m", "pytest", "-q", "-p", "rllm_offline", *files, cwd=changed / "rllm-model-gateway")
    assert passed(result) >= 40


def test_engine_tests_after_the_change(changed, process):
    rllm_source.need("rLLM's engine tests weren't run", "tinker_cookbook", "renderers")
    if why := real_tokenizers.missing("Qwen/Qwen3-8B"):
        pytest.skip(why)
    files = ENGINE_TESTS[rllm_source.unified(changed)]
    result = process("-m", "pytest", "-q", "-p", "rllm_offline", *files)
    assert passed(result) >= 5
