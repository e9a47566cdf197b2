"""Models that tests of training share, each with a template of its kind."""

from __future__ import annotations

import pytest
from supervised_backends import Served, on


@pytest.fixture(scope="session")
def llama() -> Served:
    """History stays as it was said; no reasoning."""
    return on("meta-llama/Llama-3.2-3B-Instruct")


@pytest.fixture(scope="session")
def qwen() -> Served:
    """The template renders old turns anew, without their reasoning."""
    return on("Qwen/Qwen3-8B")
