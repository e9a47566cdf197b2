"""The demo: a scripted rollout on a real vocabulary."""
