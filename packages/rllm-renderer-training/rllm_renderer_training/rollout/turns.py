"""Turn by turn: the prompt, what was sampled from it, and what comes behind that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined, RendererError
from rllm_renderer_core.normal_form.ids import IdsView, common_prefix
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tokenizer import decoder_of
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.types import Message, ParsedResponse

from ..errors import RolloutError
from .completions import completed
from .replies import Reply, answers_broken, bridged_over_broken
from .segment import Decline, Segment
from .state import RolloutState


class Turns(RolloutState):
    """What is called at each turn; see ``Rollout``."""

    def begin(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, continue_final_message: bool = False
    ) -> list[int]:
        """Render the opening messages.

        Args:
            messages: At least one message; the conversation before the first completion.
            tools: Declared for the whole rollout.
            continue_final_message: The last message is an assistant's begun answer, which the completion goes on with, as in
                transformers' ``apply_chat_template``. It is part of the prompt and not trained; the recorded message has it.

        Returns:
            The prompt ids to sample the first turn from.

        Raises:
            RolloutError: Called twice; no message; an answer that can't be gone on with; a final assistant message without
                ``continue_final_message``, behind which a second assistant turn would begin.
        """
        if self.segments:
            raise RolloutError("begin was called twice", fix="make a Rollout for each conversation")
        opening = normalize_messages(messages)
        if not opening:
            raise RolloutError("begin needs at least one message")
        declared = normalize_tools(tools)
        if not continue_final_message:
            return self._render(opening, declared)
        prompt, start = _prefilled(self.renderer, opening, declared)
        self.segments.append(Segment(prompt, [], opening, declared, len(prompt), start))
        return list(prompt)

    def record(
        self,
        completion_ids: Sequence[int],
        logprobs: Sequence[float | None] | None = None,
        *,
        finish_reason: str | Mapping[str, Any] | None = None,
        stop_reason: int | str | None = None,
        version: int | str | None = None,
        forced: Sequence[bool] | None = None,
    ) -> ParsedResponse:
        """Take what was sampled from the current prompt.

        A stop that the engine left out is put back, marked as sampled, where ``stop_reason`` names its id and the completion
        doesn't have it; its log-probability is ``None``, and ``Turn.restored_stop`` says so. Nothing else is ever put back:
        ``finish_reason="stop"`` alone, or a text as ``stop_reason``, may mean that a stop string of the caller ended the turn,
        and then the model sampled no stop. ``extend`` closes such a turn as one that was cut off, with ids that aren't trained.

        Args:
            completion_ids: The ids that the engine returned, untouched: a list, a tuple, or an array of NumPy or torch.
            logprobs: One for each id, ``None`` where one isn't known.
            finish_reason: vLLM's or SGLang's: ``"stop"``, ``"tool_calls"``, ``"length"``, ``"abort"``, or SGLang's mapping
                ``{"type": "stop", "matched": 151645}``. With ``"length"`` or ``"abort"`` a stop among the ids is an error.
            stop_reason: vLLM's ``stop_reason`` or SGLang's ``matched``: the id or the text that ended the turn. ``None``: not
                known; vLLM says so of the end-of-sequence id, which it returns with the others.
            version: Of the weights that sampled the ids: the training step, also as SGLang's text.
            forced: One for each id: ``True`` where the engine forced it (a thinking budget's close), so that it isn't trained.

        Returns:
            The turn, parsed, with what came before a ``resume``; its message is part of ``messages`` now. Run its ``runnable``
            calls alone.

        Raises:
            TokenIdError: ``completion_ids`` aren't ids of the vocabulary; ``index`` tells which entry.
            RolloutError: Called out of order, or the arguments contradict each other.
        """
        if not self.segments or self.recorded:
            raise RolloutError("record needs a prompt that nothing was sampled from yet", fix="call begin or extend first")
        ids, sampled = completed(self.renderer, completion_ids, logprobs, finish_reason, stop_reason, version, forced)
        segment = self.segment
        turn = segment.token_ids[segment.turn_start :] + ids
        prompt = IdsView(segment.token_ids, segment.turn_start)
        parsed = self.renderer.parse_response(turn, tools=self.tools, prompt_ids=prompt)
        segment.add_sampled(ids, sampled, parsed.to_message())
        segment.replies[len(segment.messages) - 1] = Reply.of(parsed)
        self.turns += 1
        return parsed

    def resume(self) -> list[int]:
        """Go on with the turn that was recorded last and has no stop: one that was aborted to load new weights, or cut off.

        The next ``record`` joins what it takes to that turn, with log-probabilities and versions of its own.

        Returns:
            The prompt ids to go on from: the previous prompt and completion, id for id.

        Raises:
            RolloutError: Nothing was recorded, or the turn has its stop.
        """
        if not self.segments or not self.recorded:
            raise RolloutError("resume needs a recorded completion", fix="call record first")
        segment = self.segment
        completion = segment.token_ids[segment.turn_start :]
        if not set(completion).isdisjoint(self.renderer.get_stop_token_ids()):
            raise RolloutError("resume needs a turn without a stop, and the last one has one", fix="call extend")
        segment.prompt_size, segment.recorded = len(segment.token_ids), False
        self.turns -= 1
        return list(segment.token_ids)

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
        segment, new = self.segment, normalize_messages(new_messages)
        delta = bridged_over_broken(self.renderer, segment, new)
        if isinstance(delta, BridgeDeclined):
            return self._render([*self.messages, *new], self.tools, Decline(self.turns, delta.reason))
        segment.add_prompt(delta, new)
        return list(segment.token_ids)

    def remaining(self, max_len: int, new_messages: Sequence[Message] = ()) -> int:
        """How many ids can be sampled in a sequence of ``max_len``; 0 where none can.

        Args:
            max_len: The longest sequence that the engine or the trainer takes, in ids.
            new_messages: What ``extend`` would add first. Nothing changes: ask before, and end the rollout where it is 0.
        """
        if not self.segments:
            raise RolloutError("remaining needs a prompt", fix="call begin first")
        ids = self.fork().extend(new_messages) if new_messages else self.segment.token_ids
        return max(0, max_len - len(ids))

    def _render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, decline: Decline | None = None
    ) -> list[int]:
        """A new segment from a whole conversation; what fails changes nothing."""
        if messages[-1]["role"] == "assistant":
            raise RolloutError(
                "the conversation ends with an assistant message, behind which no second assistant turn is opened",
                fix="add the message that it is to answer; resume() goes on with a turn that was cut off, and "
                "begin(..., continue_final_message=True) with an answer that was begun elsewhere",
            )
        replies = self.segment.replies if self.segments else {}
        try:
            prompt = list(self.renderer.render_ids(messages, tools=tools, add_generation_prompt=True))
            # also under dropped="warn": a rollout goes on from a prompt with everything in it
            for dropped in self.renderer.dropped(messages, tools=tools, add_generation_prompt=True):
                raise dropped.error(f"{self.renderer.backend}:{self.renderer.name}")
        except RendererError as error:
            if decline is None or not answers_broken(replies.get(len(self.messages) - 1), messages[len(self.messages) :]):
                raise
            raise RolloutError(
                f"a result answers a call that doesn't parse, which can neither be bridged ({decline.reason}) nor rendered: "
                f"{str(error).splitlines()[0]}",
                fix="answer it with a user message that says what was wrong",
            ) from error
        if decline is not None:
            self.declines.append(decline)
        kept = dict(replies) if messages[: len(self.messages)] == self.messages else {}
        size = len(prompt)
        self.segments.append(Segment(prompt, [], messages, tools, size, size, replies=kept))
        self.current = len(self.segments) - 1
        return list(prompt)


def _prefilled(
    renderer: ResolvedRenderer, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> tuple[list[int], int]:
    """A prompt that ends inside an assistant message, as by transformers' ``continue_final_message``: the conversation up
    to the last character of its final assistant message, and where that message's turn begins.

    The ids are those of the finished turn, cut behind the message's text: ``...assistant\\nThe answer is`` of
    ``...assistant\\nThe answer is<|im_end|>``. They are proven by the parser, which must read that text out of them.
    """
    *before, last = messages
    fix = "leave the begun answer out, or take a renderer whose format shows it as it is"
    text = last["content"]
    if last["role"] != "assistant" or not isinstance(text, str) or not text.strip() or last.get("tool_calls"):
        raise RolloutError(
            "continue_final_message needs a final assistant message of text, without tool calls",
            fix="end the messages with the begun answer, or leave continue_final_message out",
        )
    if not before:
        raise RolloutError("a begun answer needs a message before it", fix="put the user's message in front of it")
    if not callable(getattr(renderer.tokenizer, "decode", None)):
        raise RolloutError(f"the tokenizer of {renderer!r} can't decode, so that no begun answer is found", fix=fix)
    ids = renderer.render_ids(messages, tools=tools)
    start = common_prefix(ids, renderer.render_ids(before, tools=tools, add_generation_prompt=True))
    decode = decoder_of(renderer.tokenizer)
    wanted = text if text in decode(ids[start:]) else text.strip()  # as transformers: a template may trim
    end = next((at for at in range(len(ids), start, -1) if decode(ids[start:at]).endswith(wanted)), None)
    if end is None:
        raise RolloutError(f"{renderer!r} doesn't show the begun answer {text[-40:]!r} at the end of its turn", fix=fix)
    parsed = renderer.parse_response(ids[start:end], tools=tools, prompt_ids=ids[:start])
    if parsed.content.strip() != text.strip() or parsed.tool_calls or not parsed.reasoning_complete:
        raise RolloutError(f"{renderer!r} reads the begun answer {text[-40:]!r} as {parsed.content[-40:]!r}", fix=fix)
    return ids[:end], start
