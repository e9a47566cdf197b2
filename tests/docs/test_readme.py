"""The README fits on one screen, and says first what it is for."""

from __future__ import annotations

import pathlib

README = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.split()) <= 900


def test_the_fault_comes_first_then_install_then_code() -> None:
    places = [
        README.index(text) for text in ("The fault that it prevents", "## Install", "## Use", "## Compared", "## Where to go")
    ]
    assert places == sorted(places)
