"""Tinker's renderers on real tokenizers: each resolved once, by the name of the renderer."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import pytest
import real_tokenizers
import tinker_oracle

from rllm_renderer_core import resolve

if importlib.util.find_spec("tinker_cookbook") is None:
    collect_ignore_glob = ["test_*.py"]


@functools.cache
def resolved_renderer(renderer: str, model: str, thinking: bool | None = None) -> Any:
    """What ``resolve`` returns for this renderer on this model's tokenizer; skips where one of them can't be had."""
    from rllm_renderer_tinker import catalog

    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    if renderer not in catalog.builtin_names():
        pytest.skip(f"this tinker-cookbook has no renderer {renderer!r}")
    return resolve(
        model, real_tokenizers.load(model), backend="tinker", renderer=renderer, thinking=thinking, parity="off"
    )


@pytest.fixture
def renderer_of():
    """``renderer_of(renderer, model)``."""
    return resolved_renderer


@pytest.fixture
def resolved(case):
    """The renderer of the test's ``case``."""
    return resolved_renderer(case.renderer, case.model)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", tinker_oracle.ALL, ids=str)
