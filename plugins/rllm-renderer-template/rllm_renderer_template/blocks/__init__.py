"""Formats that write a turn as messages, as harmony does."""
