"""The bridge of a resolved renderer: normal form, guards before, the backend, guards after.

A decline comes back as a value or as ``None`` and is logged; a bridge never raises but under ``RLLM_RENDERER_STRICT=1``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..errors import BridgeDeclined, ContractError, RendererError, TokenIdError
from ..normal_form.ids import BridgedTokens, IdsView, are_ids, as_ids, check_attribution, check_lengths
from ..normal_form.messages import has_media, has_white_edges, normalize_messages
from ..normal_form.pairing import answered_turn, calls_of, fill_results, sampled_calls
from ..normal_form.tools import normalize_tools
from ..plugin.discovery import strict
from ..types import Message, RenderedTokens
from .guards import Guards
from .parsing import GENERATED_ID

logger = logging.getLogger("rllm_renderer")

QUERY_ROLES = frozenset({"user", "developer", "system"})
"""Roles that open a new query: where ``thinking_retention="tool_cycle"`` renders again."""


class Bridging(Guards):
    """The bridge methods of ``ResolvedRenderer``."""

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """The prompt and completion, and what follows them; or ``None``: render everything again. The reason is logged.

        Raises:
            RendererError: Under ``RLLM_RENDERER_STRICT=1``, what would otherwise be a decline because of bad messages, bad
                tools, an exception upstream or a broken contract.
        """
        out = self.try_bridge(
            previous_prompt_ids, previous_completion_ids, new_messages, tools=tools, previous_message=previous_message
        )
        return None if isinstance(out, BridgeDeclined) else out

    def try_bridge(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | BridgeDeclined:
        """As ``bridge_to_next_turn``, but a decline comes back as a ``BridgeDeclined`` with its ``reason``."""
        out = self.try_continue(
            previous_prompt_ids, previous_completion_ids, new_messages, tools=tools, previous_message=previous_message
        )
        if isinstance(out, BridgedTokens):
            _ = out.token_ids  # put together now: the caller's list may change
        return out

    def try_continue(
        self,
        history: Sequence[int],
        completion: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> BridgedTokens | BridgeDeclined:
        """As :meth:`try_bridge`, for callers that want ``delta`` alone, what comes behind prompt and completion.

        A history that is an ``IdsView``, and a completion with it, are of ids that came through :meth:`as_ids` or
        :meth:`render_ids` before: not checked again, and not copied for backends that take views, so that the cost doesn't
        depend on the length of the history.
        """
        name = f"{self.backend}:{self.name}"
        try:
            if isinstance(history, IdsView):
                prompt, sampled = history, list(completion)
            else:
                prompt = IdsView(as_ids(history, "previous_prompt_ids", limit=self._limit))
                sampled = as_ids(completion, "previous_completion_ids", limit=self._limit)
            return self._bridge(prompt, sampled, new_messages, tools, previous_message)
        except BridgeDeclined as declined:
            logger.info("%s declined a bridge: %s", name, declined.reason)
            return declined
        except (Exception, SystemExit) as error:
            if strict():
                raise
            if isinstance(error, ContractError):
                logger.warning("%s broke the bridge contract: %s", name, error)
            reason = str(error).splitlines()[0] if isinstance(error, RendererError) else f"{type(error).__name__}: {error}"
            out = BridgeDeclined(reason)
            out.__cause__ = error
            logger.info("%s declined a bridge: %s", name, reason)
            return out

    def _bridge(
        self,
        prompt: IdsView,
        sampled: list[int],
        new_messages: Sequence[Message],
        tools: Sequence[Any] | None,
        previous_message: Message | None,
    ) -> BridgedTokens:
        """The pipeline, from ids that were checked when they came in.

        Raises:
            BridgeDeclined: With the reason.
            RendererError: Bad messages or tools, or a broken contract.
        """
        # Normal form
        new = normalize_messages(new_messages)
        declared = None if tools is None else normalize_tools(tools)
        previous = None if previous_message is None else answered_turn(previous_message)
        # Guards before
        self._refuse_early(prompt, sampled, new)
        self._turn_end.before_bridge(prompt, sampled, lambda ids: self._parsing.parse_native(ids, declared, prompt.to_list()))
        if any(message["role"] == "tool" for message in new):
            new, previous = self._paired(prompt, sampled, new, declared, previous)
        if self._marker_text is not None:
            new, declared = self._marker_text.messages(new), self._marker_text.tools(declared)
            previous = None if previous is None else self._marker_text.messages([previous])[0]
        given = prompt if self.traits.takes_views else prompt.to_list()

        def bridged(messages: list[dict[str, Any]]) -> BridgedTokens:
            with self._lock:
                out = self.upstream.bridge_to_next_turn(
                    given, list(sampled), messages, tools=declared, previous_message=previous
                )
            if out is None:
                raise BridgeDeclined(f"{self.backend}:{self.name} can't prove this bridge")
            return checked_bridge(out, prompt, given, sampled, self.backend, messages=len(messages))

        out = bridged(new)
        # Guards after
        if self._span_encoding is not None and any(map(has_white_edges, new)):
            out = self._span_encoding.after_bridge(out, new)
        self._nothing_dropped.after_bridge(new, declared is not None, lambda messages: bridged(messages).delta)
        return out

    def _refuse_early(self, prompt: IdsView, sampled: list[int], new: list[dict[str, Any]]) -> None:
        """Declines that need nothing of the format."""
        if not prompt:
            raise BridgeDeclined("the previous prompt is empty")
        if not sampled:
            # What was bridged before this ends with a generation prompt: closing that turn would leave an empty one.
            raise BridgeDeclined("nothing was sampled since the previous prompt")
        if not new:
            raise BridgeDeclined("there is no new message")
        for index, message in enumerate(new):
            if message["role"] == "assistant":
                raise BridgeDeclined(f"new message {index} is an assistant message: its tokens weren't sampled here")
            if self._drops_old_reasoning and message["role"] in QUERY_ROLES:
                raise BridgeDeclined(
                    f"new message {index} ({message['role']}) opens a new query, where thinking_retention='tool_cycle' "
                    "drops old reasoning",
                    fix="thinking_retention='all' keeps it",
                )
            if not isinstance(message["content"], str) and not self.traits.supports_media and has_media(message):
                raise BridgeDeclined(f"new message {index} carries media, and {self.backend}:{self.name} bridges text alone")
        if not self.stops.isdisjoint(sampled) and sum(map(self.stops.__contains__, sampled)) > 1:
            raise BridgeDeclined("the completion has more than one stop")
        if not self.more_stops.isdisjoint(sampled):
            raise BridgeDeclined("the completion ends with the tokenizer's end of sequence, which closes no turn of the format")

    def _paired(
        self,
        prompt: IdsView,
        sampled: list[int],
        new: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        previous: dict[str, Any] | None,
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """New messages whose results have the names of their calls, where that is certain, and the turn that they answer."""
        results = [message for message in new if message["role"] == "tool"]
        given = [result.get("tool_call_id") for result in results]
        if previous is None and all(isinstance(each, str) and each.startswith(GENERATED_ID) for each in given):
            previous = self._answered(prompt, sampled, {str(each) for each in given}, tools)
        if previous is not None:
            calls = calls_of(previous)
            known = {call_id for _, call_id in calls if call_id is not None}
            if not known or set(given) - {None} <= known:
                return (fill_results(calls, new) if self.traits.fills_result_names else new), previous
            # The client wrote its own ids: which result answers which call is not to be had from the message.
        if not self.traits.fills_result_names or all(result.get("name") and result.get("tool_call_id") for result in results):
            return new, None
        return fill_results(sampled_calls(self._parsing.parse_native(sampled, tools)), new), None

    def _answered(
        self, prompt: IdsView, sampled: list[int], given: set[str], tools: list[dict[str, Any]] | None
    ) -> dict[str, Any] | None:
        """The sampled message, where the results carry the very ids that ``parse_response`` gave its calls: then it is certain
        which answers which, though the format has no ids."""
        parsed = self._parsing.parse(sampled, tools, prompt.to_list())
        if not parsed.tool_calls or not all(call.sound for call in parsed.tool_calls):
            return None
        if not given <= {call.id for call in parsed.tool_calls}:
            return None
        return normalize_messages([parsed.to_message()])[0]


def checked_bridge(
    out: Any, prompt: IdsView, given: Sequence[int], sampled: list[int], backend: str, *, messages: int | None = None
) -> BridgedTokens:
    """A bridge that starts with the previous prompt and completion, id for id, and adds to them: the prefix guarantee.

    Args:
        out: What the backend returned.
        prompt: The previous prompt.
        given: What the backend got as the previous prompt: where ``out`` is a :class:`BridgedTokens` over that very object,
            its ids start with it by construction, and nothing of it is copied or compared.
        sampled: The completion.
        backend: The backend's name.
        messages: How many new messages there are.

    Raises:
        ContractError: It doesn't.
    """
    if not isinstance(out, RenderedTokens):
        raise ContractError(f"backend {backend!r} returned {type(out).__name__} instead of RenderedTokens")
    whole: list[int] | None = None
    if type(out) is BridgedTokens and out.history is given and out.completion == sampled:
        delta, indices, mask = out.delta, out.delta_indices, out.delta_mask
    else:
        whole, delta = _compared(out, prompt, sampled, backend)
        size = len(whole)
        indices = None if out.message_indices is None else out.message_indices[size:]
        mask = None if out.sampled_mask is None else out.sampled_mask[size:]
    if not delta:
        raise ContractError(f"backend {backend!r} returned a bridge that adds nothing to the prompt and completion")
    delta = _as_ids(delta, backend)
    check_attribution(indices, mask, backend, messages)
    if whole is not None:
        whole.extend(delta)
    mask = [False] * len(delta) if mask is None else mask
    return BridgedTokens(prompt, sampled, delta, indices, mask, out.multi_modal_data, whole=whole)


def _compared(out: RenderedTokens, prompt: IdsView, sampled: list[int], backend: str) -> tuple[list[int], list[int]]:
    """The prompt and completion in the backend's own list, and what is behind; the history is compared once, not copied."""
    ids = out.token_ids
    if not isinstance(ids, list):  # an array, or nothing that could be compared
        out.token_ids = ids = _as_ids(ids, backend)
    check_lengths(out, backend)
    behind = ids[len(prompt) :]
    del ids[len(prompt) :]
    if not prompt.equals(ids) or behind[: len(sampled)] != sampled:
        ids.extend(behind)
        raise ContractError(f"backend {backend!r} returned a bridge that doesn't start with the prompt and completion")
    whole = ids if are_ids(ids) else prompt.to_list()  # what compares equal may still be True for 1
    whole.extend(sampled)
    return whole, behind[len(sampled) :]


def _as_ids(ids: Any, backend: str) -> list[int]:
    try:
        return as_ids(ids, "ids")
    except TokenIdError as error:
        raise ContractError(f"backend {backend!r} returned a bridge that isn't a list of ids: {error}") from error
