"""rLLM's own tests, on a copy of its sources with the changes of docs/rllm.md, against our objects."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest
import real_tokenizers
import rllm_source
from rllm_changes import ENGINE_TESTS, GATEWAY_TESTS

pytestmark = pytest.mark.slow

NOT_APPLICABLE = (
    # They put a fake module in the place of ``renderers`` and count the calls of its factory.
    "test_resolve_legacy_name_through_pinned_typed_factory",
    "test_resolve_passes_chat_template_kwargs_to_prime_renderer",
    # Qwen3's tokenizer under a foreign name, for which they expect the fallback: here its ids tell that it is Qwen3's.
    "test_resolve_chat_template_fallback",
    "test_resolve_cookbook_does_not_crash_when_absent",
)


def passed(result):
    """The number of tests that passed, where none failed."""
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    return int(re.search(r"(\d+) passed", result.stdout)[1])


def test_gateway_unit_tests_with_our_wrapper_as_their_renderer(changed, process):
    files = [f"tests/unit/{name}" for name in GATEWAY_TESTS[rllm_source.unified(changed)]]
    result = process("-m", "pytest", "-q", "-p", "rllm_offline", *files, cwd=changed / "rllm-model-gateway")
    assert passed(result) >= 40


def test_engine_tests_after_the_change(changed, process):
    for name in ("tinker_cookbook", "renderers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"rLLM's engine tests weren't run: {name} isn't installed")
    if why := real_tokenizers.missing("Qwen/Qwen3-8B"):
        pytest.skip(why)
    skipped = " and ".join(f"not {name}" for name in NOT_APPLICABLE)
    files = ENGINE_TESTS[rllm_source.unified(changed)]
    result = process("-m", "pytest", "-q", "-p", "rllm_offline", "-k", skipped, *files)
    assert passed(result) >= 12


def test_our_sessions_through_the_changed_gateway(changed, process):
    """The tests of test_gateway.py, with its ids as vLLM's: here no pairing of results is uncertain."""
    tests = pathlib.Path(__file__).parent / "test_gateway.py"
    chosen = "one_segment or answered_turn"
    arguments = ("-m", "pytest", "-q", "-p", "no:asyncio", "-k", chosen, tests)
    result = process(*arguments, cwd=tests.parents[2], env={"RLLM_SOURCE": str(changed)})
    assert passed(result) >= 4
