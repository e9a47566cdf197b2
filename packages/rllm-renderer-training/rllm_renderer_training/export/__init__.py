"""Rollouts in the layouts of trainers."""
