"""What a renderer's tests declare about it, and what all groups of checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings

from ..errors import BridgeDeclined
from ..normal_form.ids import BridgedTokens
from ..normal_form.messages import normalize_messages
from ..normal_form.tools import normalize_tools
from ..renderer.resolved import ResolvedRenderer
from .checks import bridge, completions, ids_of_bridge
from .turns import CONVERSATIONS, TURNS, Turn
from .wrapping import wrap

by_name: dict[str, Any] = {"ids": lambda each: each.name}


class Capabilities:
    """What a renderer declares that it can do; what it can't is skipped, and the skip says which attribute decided.

    Attributes:
        bridges: It bridges turns. Where it doesn't, each bridge must be ``None``.
        declarations: It renders tool declarations. Where it doesn't, it must refuse them with an error.
        calls: It renders an assistant's tool calls.
        results: It renders the results of calls.
        parallel_calls: An assistant turn may have several calls.
        reasoning: It renders ``reasoning_content`` of the last turn.
        system_in_new: A system message may come in the middle of a conversation.
        users_in_a_row: A user message may follow a user message.
        stop_token: It has stop tokens, and closes past turns with one of them.
        needs_no_lock: The bare renderer may be used by many threads at once. Not needed: the core holds a lock.
        marker_text: What becomes of a control token's text in a user's or a tool's message: ``"control"``, ``"text"`` or
            ``"refused"``. ``None`` means: find out; it is in the report's ``user_properties`` either way.
        literal_text: ``marker_text="literal"`` can be had: it tokenizes message text with the tokenizer that it is given.
        examples: How many generated cases each test tries.
        reference: ``(messages, tools, add_generation_prompt) -> ids`` of the official template or encoder. What it raises skips
            the conversation.
        oracle: ``(render, stop_ids, special_ids)`` to an object with ``bridge_to_next_turn``, to which bridges are
            compared beside the whole render: ``rllm_renderer_template.SeamBridge`` where that is installed.
    """

    bridges: ClassVar[bool] = True
    declarations: ClassVar[bool] = True
    calls: ClassVar[bool] = True
    results: ClassVar[bool] = True
    parallel_calls: ClassVar[bool] = True
    reasoning: ClassVar[bool] = True
    system_in_new: ClassVar[bool] = True
    users_in_a_row: ClassVar[bool] = True
    stop_token: ClassVar[bool] = True
    needs_no_lock: ClassVar[bool] = False
    marker_text: ClassVar[str | None] = None
    literal_text: ClassVar[bool] = True
    examples: ClassVar[int] = 50
    reference: Callable[..., Sequence[int]] | None = None
    oracle: ClassVar[Callable[..., Any] | None] = None

    @pytest.fixture
    def resolved(self, renderer: Any) -> ResolvedRenderer:
        """The renderer under the core's contract."""
        return renderer if isinstance(renderer, ResolvedRenderer) else wrap(renderer, getattr(renderer, "tokenizer", None))

    def _need(self, *capabilities: str) -> None:
        for name in capabilities:
            if not getattr(self, name):
                pytest.skip(f"{type(self).__name__} declares {name}=False")

    def _able(self, cases: Sequence[Any]) -> Iterator[Any]:
        return (self._fitting(case) for case in cases if all(getattr(self, each) for each in case.needs))

    def _fitting(self, case: Any) -> Any:
        """The case, without declarations where the renderer has none; skipped where it needs what isn't declared."""
        self._need(*case.needs)
        return case if self.declarations else replace(case, declares=False)

    @property
    def _settings(self) -> settings:
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        return settings(
            max_examples=self.examples, deadline=None, database=None, derandomize=True, suppress_health_check=checks
        )

    def _bridged(self, resolved: ResolvedRenderer, turn: Turn) -> list[tuple[list[int], list[int], BridgedTokens]]:
        self._need("bridges")
        tried = [(*given, bridge(resolved, *given, turn)) for given in completions(resolved, turn, self.reasoning)]
        bridged = [(prompt, sampled, out) for prompt, sampled, out in tried if isinstance(out, BridgedTokens)]
        if not bridged:
            pytest.skip("; ".join(["declined", *(out.reason for *_, out in tried if isinstance(out, BridgeDeclined))]))
        return bridged

    def _jobs(self, resolved: ResolvedRenderer, on: Any) -> list[Callable[[], Any]]:
        """Calls of everything on ``on``, which is ``resolved``, its copy or its bare renderer."""
        jobs: list[Callable[[], Any]] = []
        for each in self._able(CONVERSATIONS):
            messages, tools = normalize_messages(each.messages), normalize_tools(each.tools)
            jobs.append(partial(on.render, messages, tools=tools, add_generation_prompt=True))
            jobs.append(partial(on.render_ids, messages, tools=tools))
        for turn in self._able(TURNS):
            (previous, *new), tools = normalize_messages(turn.messages), normalize_tools(turn.tools)
            for prompt, sampled in completions(resolved, turn, self.reasoning):
                jobs.append(partial(on.parse_response, sampled, tools=tools, prompt_ids=prompt))
                jobs.append(partial(ids_of_bridge, on, prompt, sampled, new, tools, previous))
        return jobs
