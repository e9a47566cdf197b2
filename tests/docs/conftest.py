"""What the pages show, for the tests that compare it with what a renderer gives."""

from __future__ import annotations

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "how-it-works.md"


@pytest.fixture(scope="session")
def shown():
    """The values of the lists on docs/how-it-works.md, by their names there."""
    values = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, values)
    return values
