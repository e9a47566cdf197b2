"""Spans between special tokens are encoded in one call."""
