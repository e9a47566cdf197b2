"""Rollouts as rLLM's ``Trajectory`` and ``Step``; rLLM is imported where one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rllm_renderer_training.errors import RolloutError
from rllm_renderer_training.export.arrays import trained_sequences

if TYPE_CHECKING:
    from rllm_renderer_training.rollout.rollout import Rollout


def rllm_steps(rollout: Rollout) -> list[dict[str, Any]]:
    """The arguments of rLLM's ``Step`` for each sampled turn of which something is trained, in order.

    A step has no mask: ids at either end of a turn that aren't trained (a stop whose log-probability isn't known) are left to
    the prompts. ``logprobs`` is empty where none were recorded.

    Raises:
        RolloutError: An id inside a turn isn't trained; or some turns have log-probabilities and some have none.
    """
    steps: list[dict[str, Any]] = []
    for sequence in trained_sequences([rollout])[0]:
        segment = sequence.segment
        for turn in segment.turns:
            kept = [at for at in range(turn.start, min(turn.end, len(sequence.token_ids))) if sequence.loss_mask[at]]
            if not kept:
                continue
            start, end = kept[0], kept[-1] + 1
            if len(kept) != end - start:
                raise RolloutError(
                    f"{end - start - len(kept)} ids inside a turn were forced or have no log-probability, and rLLM's Step has "
                    "no mask",
                    fix="export it with to_arrays, to_rows or to_verl",
                )
            steps.append(
                {
                    "prompt_ids": segment.token_ids[:start],
                    "response_ids": segment.token_ids[start:end],
                    "logprobs": [] if sequence.logprobs is None else sequence.logprobs[start:end],
                    "chat_completions": [dict(message) for message in segment.messages[: turn.message + 1]],
                    "model_response": str(segment.messages[turn.message]["content"]),
                    "thought": str(segment.messages[turn.message].get("reasoning_content") or ""),
                    "done": False,
                }
            )
    if steps:
        steps[-1]["done"] = True
    return steps


def to_rllm(rollout: Rollout, *, name: str = "agent", task: Any = None, reward: float | None = None) -> Any:
    """A ``rllm.types.Trajectory`` with one ``Step`` for each sampled turn; needs rLLM."""
    from rllm.types import Step, Trajectory

    steps = [Step(**step) for step in rllm_steps(rollout)]
    return Trajectory(name=name, task=task, steps=steps, reward=reward)
