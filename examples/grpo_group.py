"""64 rollouts at once under asyncio: 8 questions, a first turn each, and a group of 8 branches from it with ``fork``.

    python examples/grpo_group.py

The branches share the first turn. It is trained once, in the rollout that they branch from: ``fork(sampled=False)``. Rendering
takes a fraction of a millisecond, so it stays in the event loop; only sampling is awaited.
"""

from __future__ import annotations

import asyncio
from typing import Any

import scripted_model
from rllm_renderer_training import Rollout
from rllm_renderer_training.export.arrays import to_arrays

from rllm_renderer_core import ResolvedRenderer, resolve

GROUPS, BRANCHES = 8, 8


async def sample(prompt: list[int], script: Any) -> tuple[list[int], list[float]]:
    """The engine: ids in, ids and log-probabilities out."""
    await asyncio.sleep(0)
    ids = script(prompt)
    return ids, [-0.25] * len(ids)


async def branch(rollout: Rollout, prompt: list[int], script: Any) -> Rollout:
    """One branch, to its end."""
    while True:
        ids, logprobs = await sample(prompt, script)
        parsed = rollout.record(ids, logprobs, finish_reason="stop")
        if not parsed.runnable:
            return rollout
        prompt = rollout.extend([scripted_model.run(call) for call in parsed.runnable])


async def group(renderer: ResolvedRenderer, number: int, script: Any) -> tuple[Rollout, list[Rollout]]:
    """The first turn of a question, and the branches that go on from it."""
    root = Rollout(renderer)
    question = {"role": "user", "content": f"{scripted_model.QUESTION['content']} (attempt {number})"}
    ids, logprobs = await sample(root.begin([question], tools=scripted_model.TOOLS), script)
    parsed = root.record(ids, logprobs, finish_reason="stop")
    branches = [root.fork(sampled=False) for _ in range(BRANCHES)]
    results = [scripted_model.run(call) for call in parsed.runnable]
    return root, await asyncio.gather(*(branch(each, each.extend(results), script) for each in branches))


async def main() -> None:
    vocabulary = scripted_model.tokenizer()
    renderer = resolve(scripted_model.MODEL, vocabulary, require_bridge=True)
    script = scripted_model.sampler(vocabulary)
    groups = await asyncio.gather(*(group(renderer, number, script) for number in range(GROUPS)))
    rewards = [1.0 if "3 degrees" in each.messages[-1]["content"] else 0.0 for _, branches in groups for each in branches]
    batch = to_arrays([each for root, branches in groups for each in (root, *branches)], pad_id=vocabulary.eos_token_id or 0)
    print(f"{len(rewards)} branches, mean reward {sum(rewards) / len(rewards)}")
    print(f"{batch.input_ids.shape[0]} sequences of up to {batch.input_ids.shape[1]} ids, {int(batch.loss_mask.sum())} trained")


if __name__ == "__main__":
    asyncio.run(main())
