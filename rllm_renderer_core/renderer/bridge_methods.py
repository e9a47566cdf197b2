"""The methods around a renderer's bridge: a decline comes back as a value or as ``None``, and is logged, never raised."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..errors import BridgeDeclined, ContractError, RendererError
from ..normal_form.ids import IdsView, as_ids
from ..normal_form.returned import BridgedTokens
from ..plugin.discovery import strict
from ..types import Message, RenderedTokens
from .guards import Guards

logger = logging.getLogger("rllm_renderer")


class BridgeMethods:
    """What a resolved renderer has around its ``BridgeGuard``."""

    backend: str
    name: str
    _limit: int | None

    @cached_property
    def _guards(self) -> Guards:
        raise NotImplementedError

    def as_ids(self, ids: Any, what: str = "token ids") -> list[int]:
        """Ids of this vocabulary as a list of ``int``, from a list, a tuple, an array of NumPy or torch; a list isn't copied.

        Raises:
            TokenIdError: They aren't ids; ``what`` names them in the error.
        """
        return as_ids(ids, what, limit=self._limit)

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
        try:
            known = isinstance(history, IdsView)
            prompt = history if isinstance(history, IdsView) else IdsView(self.as_ids(history, "previous_prompt_ids"))
            sampled = list(completion) if known else self.as_ids(completion, "previous_completion_ids")
            return self._guards.bridging.bridge(prompt, sampled, new_messages, tools, previous_message)
        except BridgeDeclined as declined:
            logger.info("%s:%s declined a bridge: %s", self.backend, self.name, declined.reason)
            return declined
        except (Exception, SystemExit) as error:
            if strict():
                raise
            if isinstance(error, ContractError):
                logger.warning("%s:%s broke the bridge contract: %s", self.backend, self.name, error)
            what = str(error).splitlines()[0] if isinstance(error, RendererError) else f"{type(error).__name__}: {error}"
            out = BridgeDeclined(what)
            out.__cause__ = error
            logger.info("%s:%s declined a bridge: %s", self.backend, self.name, what)
            return out
