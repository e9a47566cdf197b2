"""Multi-turn rollouts with tools for TRL: ``GRPOTrainer(..., rollout_func=rollout(tools=[...], max_turns=8))``."""

from .rollout_func import rollout as rollout

__version__ = "0.1.0"

__all__ = ["rollout"]
