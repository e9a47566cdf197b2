"""Tests that were red in the last whole run and weren't settled since: each is run, may fail, and says what is open."""

from __future__ import annotations

UNSETTLED: dict[str, str] = {}
"""Start of a test's id to what is open."""
