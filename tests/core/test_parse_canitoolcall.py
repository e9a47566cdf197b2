"""The public suite canitoolcall through ``resolve``: what fails is listed with its reason; no call is OK but an expected one.

A few fixtures of three models by default; ``--whole`` takes all fixtures of all models.
"""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("canitoolcall") is None:
    pytest.skip("not proved: canitoolcall isn't installed", allow_module_level=True)

import parse_suite
from parse_suite_failures import FAILURES
from sampling import WHOLE

from rllm_renderer_core.errors import NoBackendError

SAMPLED = ("Qwen/Qwen3-4B-Thinking-2507", "mistralai/Mistral-Small-3.2-24B-Instruct-2506", "zai-org/GLM-5.3")
"""Those whose renderers are made fastest."""
EACH = 8
"""Fixtures of each, spread evenly."""


@pytest.mark.parametrize("model", sorted(parse_suite.by_model() if WHOLE else SAMPLED))
def test_a_model(model):
    try:
        tokenizer = parse_suite.tokenizer(model)
    except LookupError as missing:
        pytest.skip(f"not proved for {model}: {missing}")
    fixtures = parse_suite.by_model()[model]
    failed, wrong = {}, {}
    chosen = fixtures if WHOLE else fixtures[:: -(-len(fixtures) // EACH)]
    for fixture in chosen:
        try:
            renderer = parse_suite.renderer(model, tokenizer, fixture.thinking)
        except NoBackendError:
            pytest.skip(f"not proved for {model}: no installed backend covers it, and no package has its chat template")
        status, said, unexpected = parse_suite.outcome(fixture, tokenizer, renderer)
        if status not in parse_suite.PASSES:
            failed[fixture.id] = said
        if unexpected:
            wrong[fixture.id] = unexpected
    assert wrong == {}
    assert {name: said for name, said in failed.items() if name not in FAILURES} == {}
    listed = {fixture.id for fixture in chosen} & FAILURES.keys()
    assert listed <= failed.keys(), "these pass, and are listed as failures"
