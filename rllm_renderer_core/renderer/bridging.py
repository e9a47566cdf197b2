"""The bridge of a resolved renderer: normal form, guards before, the backend, guards after.

A decline comes back as a value or as ``None`` and is logged; a bridge never raises but under ``RLLM_RENDERER_STRICT=1``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..errors import BridgeDeclined, ContractError, RendererError
from ..normal_form.ids import BridgedTokens, IdsView, as_ids, checked_bridge
from ..normal_form.messages import has_media, has_white_edges, normalize_messages
from ..normal_form.pairing import paired
from ..normal_form.tools import normalize_tools
from ..plugin.discovery import strict
from ..types import Message, RenderedTokens
from .parsing import Parsing

logger = logging.getLogger("rllm_renderer")

QUERY_ROLES = frozenset({"user", "developer", "system"})
"""Roles that open a new query: where ``thinking_retention="tool_cycle"`` renders again."""


class Bridging(Parsing):
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
    ) -> BridgedTokens | BridgeDeclined:
        """As ``bridge_to_next_turn``, but a decline comes back as a ``BridgeDeclined`` with its ``reason``.

        A prompt that is an ``IdsView``, and a completion with it, are of ids that came through ``as_ids`` or ``render_ids``
        before: not checked again, and not copied for backends that take views or for callers that want ``delta`` alone, what
        comes behind prompt and completion, so that the cost doesn't depend on the length of the history.
        """
        try:
            bridged = self._bridge(previous_prompt_ids, previous_completion_ids, new_messages, tools, previous_message)
            if not isinstance(previous_prompt_ids, IdsView):
                _ = bridged.token_ids  # put together now: the caller's list may change
            return bridged
        except BridgeDeclined as declined:
            logger.info("%s declined a bridge: %s", self._label, declined.reason)
            return declined
        except (Exception, SystemExit) as error:
            if strict():
                raise
            if isinstance(error, ContractError):
                logger.warning("%s broke the bridge contract: %s", self._label, error)
            reason = str(error).splitlines()[0] if isinstance(error, RendererError) else f"{type(error).__name__}: {error}"
            out = BridgeDeclined(reason)
            out.__cause__ = error
            logger.info("%s declined a bridge: %s", self._label, reason)
            return out

    def _bridge(
        self,
        history: Sequence[int],
        completion: Sequence[int],
        new_messages: Sequence[Message],
        tools: Sequence[Any] | None,
        previous_message: Message | None,
    ) -> BridgedTokens:
        """The pipeline.

        Raises:
            BridgeDeclined: With the reason.
            RendererError: Bad ids, messages or tools, or a broken contract.
        """
        # Normal form
        if isinstance(history, IdsView):
            prompt, sampled = history, list(completion)
        else:
            prompt = IdsView(as_ids(history, "previous_prompt_ids", limit=self._limit))
            sampled = as_ids(completion, "previous_completion_ids", limit=self._limit)
        new = normalize_messages(new_messages)
        declared = None if tools is None else normalize_tools(tools)
        # Guards before
        self._refuse_messages(new)
        self._turn_end.before_bridge(prompt, sampled, lambda ids: self._parse_native(ids, declared, prompt.to_list()))
        new, previous = paired(
            new,
            previous_message,
            fills_names=self.traits.fills_result_names,
            parse=lambda: self._parse_native(sampled, declared),
            parse_checked=lambda: self._parse(sampled, declared, prompt.to_list()),
        )
        if self._marker_text is not None:
            new, declared = self._marker_text.messages(new), self._marker_text.tools(declared)
            previous = None if previous is None else self._marker_text.messages([previous])[0]
        given = prompt if self.traits.takes_views else prompt.ids[: prompt.size]

        def bridged(messages: list[dict[str, Any]]) -> BridgedTokens:
            with self._lock:
                out = self.upstream.bridge_to_next_turn(
                    given, list(sampled), messages, tools=declared, previous_message=previous
                )
            if out is None:
                raise BridgeDeclined(f"{self._label} can't prove this bridge")
            return checked_bridge(out, prompt, given, sampled, self.backend, messages=len(messages))

        out = bridged(new)
        # Guards after
        if self._span_encoding is not None and any(map(has_white_edges, new)):
            out = self._span_encoding.after_bridge(out, new)
        self._nothing_dropped.after_bridge(new, declared is not None, lambda messages: bridged(messages).delta)
        return out

    def _refuse_messages(self, new: list[dict[str, Any]]) -> None:
        if not new:
            raise BridgeDeclined("there is no new message")
        for index, message in enumerate(new):
            if message["role"] == "assistant":
                raise BridgeDeclined(f"new message {index} is an assistant message: its tokens weren't sampled here")
            if self.query.thinking_retention == "tool_cycle" and message["role"] in QUERY_ROLES:
                raise BridgeDeclined(
                    f"new message {index} ({message['role']}) opens a new query, where thinking_retention='tool_cycle' "
                    "drops old reasoning",
                    fix="thinking_retention='all' keeps it",
                )
            if not isinstance(message["content"], str) and not self.traits.supports_media and has_media(message):
                raise BridgeDeclined(f"new message {index} carries media, and {self._label} bridges text alone")
