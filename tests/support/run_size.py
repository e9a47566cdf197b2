"""Which tests a run has, and what it says that it didn't prove: pytest hooks that tests/conftest.py imports.

Without ``--whole`` a run has one renderer a format and a small sample of what is generated; marked ``whole`` is what only a
whole run has. Nothing is collected to be skipped: a test that needs what isn't here is left out, and the summary names it.
"""

from __future__ import annotations

import collections
from typing import Any

import needs
import pytest
import real_tokenizers
import sampling
import served

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


def pytest_pycollect_makeitem(collector: Any, obj: Any) -> list[Any] | None:
    """Nothing of a class that only a whole run has, such as a conformance class with its hundred cases."""
    marks = [mark.name for mark in getattr(obj, "pytestmark", ())] if isinstance(obj, type) else []
    return [] if "whole" in marks and not sampling.WHOLE else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left_out = [], []
    for item in items:
        wanted = [name for mark in item.iter_markers("needs") for name in mark.args]
        wanted += [needs.FIXTURES[name] for name in needs.FIXTURES.keys() & set(getattr(item, "fixturenames", ()))]
        unmet = {name for name in wanted if needs.NEEDS[name].missing()}
        config.stash.setdefault(_UNMET, set()).update(unmet)
        small = not sampling.WHOLE and item.get_closest_marker("whole") is not None
        (left_out if unmet or small or not _exists(item) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _exists(item: pytest.Item) -> bool:
    """Whether the test's model is served by its backend here."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    model, backend = parameters.get("model"), parameters.get("backend")
    known = model in real_tokenizers.MODELS and backend in served.BACKENDS
    return not known or served.covers(model, backend)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    said = [] if sampling.WHOLE else ["every renderer, public template, mutation, generated turn and wheel: make test-all"]
    # pytest-xdist collects in its workers alone.
    known = needs.NEEDS if config.getoption("numprocesses", None) else config.stash.get(_UNMET, set())
    said += [f"{needs.NEEDS[name].proves}: {needs.NEEDS[name].get}" for name in known if needs.NEEDS[name].missing()]
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")]
    # What a conformance class declares that its format can't have isn't a lack of this machine.
    counted = collections.Counter(reason for reason in reasons if " declares " not in reason)
    said += [f"{reason} ({count} skipped)" for reason, count in sorted(counted.items())]
    if not said:
        return
    terminalreporter.section("not proven by this run, and how to")
    for line in said:
        terminalreporter.write_line(line)
