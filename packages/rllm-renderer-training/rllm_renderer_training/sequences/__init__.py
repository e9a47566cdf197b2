"""Conversations to training sequences."""
