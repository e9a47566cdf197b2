"""Data sets to training sequences."""
