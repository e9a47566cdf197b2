"""The ways in which formats write tool calls."""
