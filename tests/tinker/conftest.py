"""Tinker's renderers on real tokenizers: each resolved once, by the name of the renderer."""

from __future__ import annotations

import importlib.util

import pytest
import sampling
import tinker_oracle
import tinker_turns

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
    wanted = [mark.kwargs["that"] for mark in metafunc.definition.iter_markers("cases")]
    if "templated" in metafunc.fixturenames:
        wanted.append(tinker_oracle.has_template)
    if "called" in metafunc.fixturenames:
        wanted.append(tinker_turns.has_call)
    here = [case for case in tinker_oracle.here() if all(holds(case) for holds in wanted)]
    cases = sampling.one_each(here, tinker_oracle.format_of)
    for name in {"case", "templated"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, cases, ids=str)
