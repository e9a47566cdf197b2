"""A multi-turn rollout as token state."""
