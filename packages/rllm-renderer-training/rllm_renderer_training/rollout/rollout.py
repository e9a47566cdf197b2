"""A multi-turn rollout as token state: bridged where possible, rendered again where not, never silently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined, RendererError
from rllm_renderer_core.normal_form.ids import IdsView
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.types import Message, ParsedResponse

from ..errors import RolloutError
from .completions import as_logprobs, stripped_stop
from .replies import Reply, answers_broken, bridged_over_broken
from .segment import Decline, Segment
from .state import RolloutState
from .sync import compare


class Rollout(RolloutState):
    """Cumulative token state of one conversation. Plain state, no I/O.

    ``begin`` once, then ``record`` and ``extend`` in turn; or ``sync`` and ``record`` where whole conversations come in.
    Each sampled id is in exactly one segment with its mask set: where a bridge is declined, the conversation is rendered again
    into a new segment, in which earlier completions aren't marked.

    A pickle has neither renderer nor tokenizer: in the process that made it the rollout finds its renderer again, in another
    one ``attach`` gives it one.

    Args:
        renderer: What ``resolve`` returned.

    Attributes:
        tools: The declared tools in normal form.
        segments: What a trainer needs.
        declines: Where and why a new segment was started.
        turns: How many completions were recorded.
    """

    # Turn by turn

    def begin(self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None) -> list[int]:
        """Render the opening messages.

        Args:
            messages: At least one message; the conversation before the first completion.
            tools: Declared for the whole rollout.

        Returns:
            The prompt ids to sample the first turn from.
        """
        if self.segments:
            raise RolloutError("begin was called twice", fix="make a Rollout for each conversation")
        opening = normalize_messages(messages)
        if not opening:
            raise RolloutError("begin needs at least one message")
        return self._render(opening, normalize_tools(tools))

    def record(
        self,
        completion_ids: Sequence[int],
        logprobs: Sequence[float | None] | None = None,
        *,
        finish_reason: str | None = None,
        stop_id: int | None = None,
    ) -> ParsedResponse:
        """Take what was sampled from the current prompt.

        Args:
            completion_ids: The sampled ids, untouched: a list, a tuple, or an array of NumPy or torch.
            logprobs: One for each id, ``None`` where one isn't known.
            finish_reason: What the engine says. With ``"stop"`` (or ``"tool_calls"``) and no stop among the ids the engine
                stripped it: it is put back, marked sampled, its log-probability ``None``, and ``Turn.restored_stop`` says so.
                With ``"length"`` or ``"abort"`` a stop among the ids is an error. ``None`` puts nothing back.
            stop_id: The stop at which the engine stopped, where it tells; needed where more than one would fit.

        Returns:
            The completion, parsed; its message is part of ``messages`` now. Run its ``runnable`` calls alone.

        Raises:
            TokenIdError: ``completion_ids`` aren't ids of the vocabulary; ``index`` tells which entry.
            RolloutError: Called out of order, or ids, ``logprobs`` and ``finish_reason`` contradict each other.
        """
        if not self.segments or self.recorded:
            raise RolloutError("record needs a prompt that nothing was sampled from yet", fix="call begin or extend first")
        completion = list(self.renderer.as_ids(completion_ids, "completion_ids"))
        given = None if logprobs is None else as_logprobs(logprobs, len(completion))
        restored = None
        if finish_reason is not None or stop_id is not None:
            restored = stripped_stop(
                self.renderer, self.messages, self.tools, self.prompt_ids, completion, finish_reason, stop_id
            )
        if restored is not None:
            completion.append(restored)
            given = None if given is None else [*given, None]
        prompt = IdsView(self.segments[-1].token_ids, self.prompt_size)
        parsed = self.renderer.parse_response(completion, tools=self.tools, prompt_ids=prompt)
        self.replies[len(self.messages)] = Reply.of(parsed)
        self.segments[-1].add_sampled(completion, given, parsed.to_message(), restored_stop=restored is not None)
        self.turns += 1
        self.recorded = True
        return parsed

    def extend(self, new_messages: Sequence[Message]) -> list[int]:
        """Add what happened since: tool results, a user's answer.

        Results may answer any call that ``record`` showed, OK or not; where the format can't show the answer to a call that
        doesn't parse, the conversation is rendered again, with the reason in ``declines``. To answer a broken call in a way
        that each format can show, send a user message that says what was wrong.

        Returns:
            The prompt ids to sample the next turn from: the previous prompt and completion, id for id, and the new messages; or
            the whole conversation rendered again, with the reason in ``declines``.
        """
        if not self.recorded:
            raise RolloutError("extend needs a recorded completion", fix="call record first")
        new = normalize_messages(new_messages)
        segment = self.segments[-1]
        history = IdsView(segment.token_ids, self.prompt_size)
        out = bridged_over_broken(
            self.renderer,
            history,
            segment.token_ids[self.prompt_size :],
            new,
            self.tools,
            self.messages[-1],
            self.replies.get(len(self.messages) - 1),
        )
        if isinstance(out, BridgeDeclined):
            return self._render([*self.messages, *new], self.tools, Decline(self.turns, out.reason))
        segment.token_ids.extend(out)
        segment.messages.extend(new)
        self.prompt_size, self.recorded = len(segment.token_ids), False
        return list(segment.token_ids)

    # Whole conversations

    def sync(self, messages: Sequence[Message], tools: Sequence[Any] | None = None) -> list[int]:
        """Take the whole conversation, as an agent behind a chat client sends it at each turn, in place of what is new in it.

        Where the list continues what was recorded, it is bridged as by ``extend``; messages are compared in normal form, and a
        recorded assistant turn is known however the client wrote it back: spacing of arguments, ``None`` as content, reasoning
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
        declared = self.tools if tools is None else normalize_tools(tools)
        difference = None if declared == self.tools else "the declared tools changed"
        new = incoming
        if difference is None:
            difference, new = compare(self.messages, self.replies, incoming)
        if difference is None and not self.recorded:
            if not new:
                return self.prompt_ids  # the same request again
            difference = "messages came before anything was sampled from the prompt"
        if difference is None and not new:
            difference = "there is no new message"
        if difference is None:
            return self.extend(new)
        return self._render(incoming, declared, Decline(self.turns, difference))

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

    def _render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, decline: Decline | None = None
    ) -> list[int]:
        """A new segment from a whole conversation; what fails changes nothing."""
        try:
            prompt = _whole_prompt(self.renderer, messages, tools)
        except RendererError as error:
            if decline is None or not answers_broken(self.replies.get(len(self.messages) - 1), messages[len(self.messages) :]):
                raise
            raise RolloutError(
                f"a result answers a call that doesn't parse, which can neither be bridged ({decline.reason}) nor rendered: "
                f"{str(error).splitlines()[0]}",
                fix="answer it with a user message that says what was wrong",
            ) from error
        if decline is not None:
            self.declines.append(decline)
        kept = len(self.messages) if messages[: len(self.messages)] == self.messages else 0
        self.replies = {index: reply for index, reply in self.replies.items() if index < kept}
        self.tools = tools
        self.segments.append(Segment(prompt, [], messages))
        self.prompt_size, self.recorded = len(prompt), False
        return list(prompt)


def _whole_prompt(renderer: Any, messages: list[dict[str, Any]], tools: list[Any] | None) -> list[int]:
    """The prompt of a conversation with everything in it: what a rollout goes on from, under ``dropped="warn"`` too.

    Raises:
        RendererError: Something of it doesn't show; and as ``render_ids``.
    """
    prompt: list[int] = renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
    find = getattr(renderer, "dropped", None)
    dropped = find(messages, tools=tools, add_generation_prompt=True) if callable(find) else ()
    if dropped:
        raise dropped[0].error(f"{renderer.backend}:{renderer.name}")
    return prompt
