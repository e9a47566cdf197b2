"""docs/rllm.md shows the changes that the tests apply, line by line."""

from __future__ import annotations

import pathlib

import pytest
import rllm_changes
from rllm_changes import ENGINE_TESTS, GATEWAY_TESTS

DOCS = (pathlib.Path(__file__).resolve().parents[2] / "docs/rllm.md").read_text(encoding="utf-8")
CHANGES = [*rllm_changes.MAIN, *rllm_changes.UNIFIED, *rllm_changes.ANSWERED, rllm_changes.ONE_RENDERER]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{pathlib.Path(change.file).name}: {change.start.strip()[:40]}")
def test_change_is_shown(change):
    shown = {line.strip() for line in DOCS.splitlines()}
    kept = {line.strip() for line in f"{change.start}\n{change.end or ''}".splitlines()}
    for line in map(str.strip, change.after.splitlines()):
        assert not line or line in shown or line in kept or line in DOCS, line
    assert pathlib.Path(change.file).name in DOCS


def test_their_tests_are_named():
    for names in (*GATEWAY_TESTS.values(), *ENGINE_TESTS.values()):
        for name in names:
            assert name in DOCS, name
