"""A multi-turn rollout as token state: bridged where possible, rendered again where not, never silently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.types import Message

from ..errors import RolloutError
from .segment import Decline
from .sync import compare
from .turns import Turns


class Rollout(Turns):
    """Cumulative token state of one conversation. Plain state, no I/O.

    ``begin`` once, then ``record`` and ``extend`` in turn; or ``sync`` and ``record`` where whole conversations come in. A turn
    that the engine aborted goes on with ``resume`` and ``record``.
    Each sampled id is in exactly one segment with its mask set: where a bridge is declined, the conversation is rendered again
    into a new segment, in which earlier completions aren't marked.

    A pickle has neither renderer nor tokenizer: in the process that made it the rollout finds its renderer again, in another
    one ``attach`` gives it one.

    Args:
        renderer: What ``resolve`` returned.

    Attributes:
        tools: The declared tools in normal form; of the current segment.
        segments: What a trainer needs.
        declines: Where and why a new segment was started.
        turns: How many completions were recorded.
    """

    def sync(self, messages: Sequence[Message], tools: Sequence[Any] | None = None) -> list[int]:
        """Take the whole conversation, as an agent behind a chat client sends it at each turn, in place of what is new in it.

        Where the list continues a segment, that is gone on with, bridged as by ``extend``: the one with the longest common
        conversation, so that an agent and its sub-agents may alternate. Messages are compared in normal form, and a recorded
        assistant turn is known however the client wrote it back: spacing of arguments, ``None`` as content, reasoning
        dropped, calls with other ids. Else a new segment begins, with the first difference as the reason in ``declines``.

        Args:
            messages: The whole conversation.
            tools: As declared in this request; ``None`` means: as before.

        Returns:
            The prompt ids to sample the next turn from.
        """
        incoming = normalize_messages(messages)
        if not self.segments:
            return self.begin(incoming, tools=tools)
        declared = normalize_tools(tools)
        compared = [
            (compare(segment, incoming, segment.tools if tools is None else declared), number)
            for number, segment in enumerate(self.segments)
        ]
        best, number = max(compared, key=lambda pair: (pair[0].difference is None, pair[0].matched, pair[1]))
        if best.difference is not None:
            return self._render(incoming, self.tools if tools is None else declared, Decline(self.turns, best.difference))
        self.current = number
        return self.extend(best.new) if best.new else self.prompt_ids

    def rewrite(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, reason: str = "rewritten on purpose"
    ) -> list[int]:
        """Go on from another history: a compacted one, an edited one, a sub-agent's summary. A new segment begins.

        What was sampled before stays where it is and is trained there, once: in the new segment nothing of the history is
        marked as sampled.

        Args:
            messages: The whole conversation to go on from.
            tools: ``None`` means: as before.
            reason: What ``declines`` shall say.

        Returns:
            The prompt ids to sample the next turn from.
        """
        if not self.segments:
            raise RolloutError("rewrite needs a conversation", fix="call begin first")
        history = normalize_messages(messages)
        if not history:
            raise RolloutError("rewrite needs at least one message")
        declared = self.tools if tools is None else normalize_tools(tools)
        return self._render(history, declared, Decline(self.turns, reason, on_purpose=True))
