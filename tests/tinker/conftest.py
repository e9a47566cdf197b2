"""Tinker's renderers on real tokenizers: each resolved once, by the name of the renderer."""

from __future__ import annotations

import importlib.util

import pytest
import tinker_oracle

if importlib.util.find_spec("tinker_cookbook") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def renderer_of():
    """``renderer_of(renderer, model)``."""
    return tinker_oracle.resolved_renderer


@pytest.fixture
def resolved(case):
    """The renderer of the test's ``case``."""
    return tinker_oracle.resolved_renderer(case.renderer, case.model)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", tinker_oracle.ALL, ids=str)
