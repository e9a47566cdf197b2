"""What a reader brings to the loop of README.md and docs/rollouts.md: a real vocabulary, a sampler that follows a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CALL = '<think>\nSure.\n</think>\n\n<tool_call>\n{"name": "thermometer", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'
ANSWER = "<think>\nCold.\n</think>\n\nThree degrees.<|im_end|>"
TOOL = {"type": "function", "function": {"name": "thermometer", "parameters": {"properties": {"city": {"type": "string"}}}}}


@dataclass
class Loop:
    """What the loop was given, and what came of it."""

    tokenizer: Any
    prompts: list[list[int]] = field(default_factory=list)
    ran: list[tuple[str, Any]] = field(default_factory=list)
    trained: list[Any] = field(default_factory=list)

    def names(self) -> dict[str, Any]:
        """The names that the pages leave to their reader."""
        return {
            "tokenizer": self.tokenizer,
            "tools": [TOOL],
            "sample": self.sample,
            "run": self.run,
            "train": self.trained.extend,
        }

    def sample(self, prompt: list[int], stop: list[int]) -> tuple[list[int], list[float], int]:
        """The scripted turns, one after the other, without their stop."""
        self.prompts.append(prompt)
        ids = self.tokenizer.encode((CALL, ANSWER)[len(self.prompts) - 1], add_special_tokens=False)
        assert ids[-1] in stop
        return ids[:-1], [-0.5] * (len(ids) - 1), ids[-1]

    def run(self, call: Any) -> dict[str, Any]:
        """A thermometer that reads 3."""
        self.ran.append((call.name, call.arguments))
        return {"role": "tool", "tool_call_id": call.id, "content": "3"}

    def check(self) -> None:
        """One segment is trained, whose second prompt has the sampled ids of the first turn in it."""
        assert self.ran == [("thermometer", {"city": "Oslo"})]
        (segment,) = self.trained
        first, second = self.prompts
        completion = self.tokenizer.encode(CALL, add_special_tokens=False)
        assert second[: len(first) + len(completion)] == first + completion
        assert segment.token_ids == second + self.tokenizer.encode(ANSWER, add_special_tokens=False)
