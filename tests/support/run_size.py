"""Which tests a run has, and what it says that it didn't prove: pytest hooks that tests/conftest.py imports.

Without ``--whole`` a run has one renderer a format and a small sample of what is generated; marked ``whole`` is what only a
whole run has. Nothing is collected to be skipped: a test that needs what isn't here is left out, and the summary names it.
"""

from __future__ import annotations

import collections
from typing import Any

import needs
import pytest
import sampling

_UNMET = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="every renderer, template, mutation, generated turn and wheel, not a sample of them (make test-all)",
    )
    parser.addoption("--write-snapshots", action="store_true", help="write what commands show to tests/cli/snapshots")


def set_size(config: pytest.Config) -> None:
    """Before a test module is imported, whose parameters depend on it."""
    sampling.WHOLE = config.getoption("--whole")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left_out = [], []
    for item in items:
        unmet = {name for mark in item.iter_markers("needs") for name in mark.args if needs.NEEDS[name].missing()}
        config.stash.setdefault(_UNMET, set()).update(unmet)
        small = not sampling.WHOLE and item.get_closest_marker("whole") is not None
        (left_out if unmet or small else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reasons = collections.Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")
    )
    said = [f"{reason} ({count} skipped)" for reason, count in sorted(reasons.items())]
    if not sampling.WHOLE:
        said.insert(0, "every renderer, public template, mutation, generated turn and wheel: make test-all, or --whole")
    # pytest-xdist collects in its workers alone.
    missing = config.stash.get(_UNMET, None) or {name for name in needs.NEEDS if config.getoption("numprocesses", None)}
    said += [f"{need.proves}: {need.get}" for name, need in needs.NEEDS.items() if name in missing and need.missing()]
    terminalreporter.section("not proven by this run, and how to")
    for line in said:
        terminalreporter.write_line(line)
