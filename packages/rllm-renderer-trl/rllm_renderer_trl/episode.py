"""One conversation of a batch, from its prompt to the row that is trained, and what is logged of it."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_training import Rollout, Segment

from rllm_renderer_core import ParsedResponse, RendererError, ToolCall, ToolCallStatus
from rllm_renderer_core.normal_form.ids import common_prefix


@dataclass
class Episode:
    """A rollout with its tools by name. From ``prompt`` at most ``room`` ids are sampled next; it is empty at the end, of which
    ``ended`` says why, unless the model or ``max_turns`` ended it."""

    rollout: Rollout
    tools: dict[str, Any]
    prompt: list[int]
    room: int = 0
    parsed: list[ParsedResponse] = field(default_factory=list)
    failures: int = 0
    ended: str = ""

    def waits(self, completion: int, context: int) -> bool:
        """Whether it goes on, with at most ``completion`` ids behind the prompt of its row and ``context`` in all."""
        segment = self.rollout.segment
        start = segment.turns[0].start if segment.turns else segment.prompt_size
        self.room = min(start + completion, context) - len(self.prompt)
        if self.prompt and self.room < 1:
            self.prompt, self.ended = [], "no_room"
        return bool(self.prompt)

    def record(self, ids: list[int], logprobs: list[float | None], stop_ids: list[int]) -> list[ToolCall]:
        """Take a completion and return its calls. One that was cut off ends the episode, as in TRL."""
        ids, logprobs = ids[: self.room], logprobs[: self.room]
        stopped = ids[-1] in stop_ids
        self.parsed.append(self.rollout.record(ids, logprobs, finish_reason="stop" if stopped else "length"))
        self.prompt, self.ended = [], "" if stopped else "length"
        return self.parsed[-1].tool_calls if stopped else []

    def extend(self, results: list[tuple[dict[str, Any], bool]]) -> None:
        """Go on behind the results of the calls; it ends where that of a broken call can neither be bridged nor rendered."""
        self.failures += sum(failed for _, failed in results)
        try:
            self.prompt = self.rollout.extend([message for message, _ in results])
        except RendererError:
            self.ended = "unanswerable"

    @property
    def segments(self) -> list[Segment]:
        """Those in which anything was sampled."""
        return [segment for segment in self.rollout.segments if segment.turns]

    def row(self) -> tuple[list[int], list[int], list[float], list[int]]:
        """What TRL trains of the last segment: prompt, completion up to its last sampled id, log-probabilities, mask.
        An id without a known log-probability isn't in the mask."""
        segment = self.segments[-1]
        start, end = segment.turns[0].start, segment.turns[-1].end
        known = segment.logprobs[start:end]
        logprobs = [0.0 if value is None else value for value in known]  # TRL's own filling of what isn't in the mask
        return segment.token_ids[:start], segment.token_ids[start:end], logprobs, [int(value is not None) for value in known]

    def metrics(self) -> dict[str, int]:
        """Counts, by the names that they are logged under."""
        calls = [call for parsed in self.parsed for call in parsed.tool_calls]
        reasons = [decline.reason.partition(":")[0].lower() for decline in self.rollout.declines]
        named = ["declines/" + re.sub("[^a-z]+", "_", reason)[:60] for reason in reasons]  # without numbers
        named += [f"parse_failures/{call.status.value}" for call in calls if call.status is not ToolCallStatus.OK]
        named += [f"ended/{self.ended}"] * bool(self.ended)
        lossy, many = sum(not parsed.lossless for parsed in self.parsed), len(self.segments)
        counts = {"segments": many, "segments_not_trained": many - 1, "drift_avoided": self._drift(), **Counter(named)}
        counts |= {"lossy_parses": lossy, "tool_calls": len(calls), "tool_failures": self.failures}
        return {f"rollout/{name}": count for name, count in counts.items()}

    def _drift(self) -> int:
        """How many ids of the last prompt rendering it again would change; where it can't be rendered, the sampled ones."""
        segment = self.segments[-1]
        prompt, before = segment.token_ids[: segment.turns[-1].start], segment.messages[: segment.turns[-1].message]
        try:
            again = self.rollout.renderer.render_ids(before, tools=segment.tools, add_generation_prompt=True)
        except RendererError:
            return sum(segment.sampled_mask[: len(prompt)])
        start = common_prefix(prompt, again)
        return len(prompt) - start - common_prefix(reversed(prompt[start:]), reversed(again[start:]))
