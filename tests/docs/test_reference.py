"""The API reference has every public name; ``make docs`` builds it."""

from __future__ import annotations

import pathlib
import re

import pytest

import rllm_renderer_core

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "api.md"


@pytest.mark.parametrize("name", rllm_renderer_core.__all__)
def test_every_public_name_is_in_the_reference(name):
    value = getattr(rllm_renderer_core, name)
    home = getattr(value, "__module__", "rllm_renderer_core.plugin")
    if not home.startswith("rllm_renderer_core."):
        home = "rllm_renderer_core.plugin"  # pluggy's marker
    shown = set(re.findall(r"^::: (\S+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert shown & {home, f"{home}.{name}"}, f"docs/api.md lacks '::: {home}.{name}'"
