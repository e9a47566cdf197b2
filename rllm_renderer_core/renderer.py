"""The one wrapper around every backend's renderer: what ``resolve`` returns.

Input is brought to normal form, results are paired with their calls, retention is decided, one lock a tokenizer is held, what
the backend returns is checked against the contract, and what can't be bridged says why. A backend needs none of this.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from .discovery import strict
from .errors import BridgeDeclined, ContractError, MessageError, RendererError, RenderError, ToolError
from .contract.messages import has_media, normalize_messages, normalize_tools, refuse_media
from .contract.pairing import Call, calls_of, fill_history, fill_results, results_in
from .plugin import Backend, Coverage, Query
from .resolution import Resolution
from .types import Message, ParsedResponse, RenderedTokens, Renderer, Termination, ToolCall, ToolCallStatus
from .vocabulary import added_tokens

logger = logging.getLogger("rllm_renderer")

MADE_UP = "call_"
"""How the ids start that calls of a format without ids get."""

QUERY_ROLES = frozenset({"user", "developer", "system"})
"""Roles that open a new query: where ``thinking_retention="tool_cycle"`` renders again."""


class ResolvedRenderer:
    """A renderer under the contract of :class:`Renderer`, with the record of how it was resolved.

    May be used by many threads at once and pickled to another process.

    Attributes:
        resolution: See :class:`Resolution`.
        backend: Name of the backend.
        name: The backend's name of the renderer.
        has_bridge: Whether ``bridge_to_next_turn`` can return ids at all.
        upstream: The backend's own renderer.
        tokenizer: The tokenizer that was passed in, the only one used.
    """

    def __init__(self, backend: Backend, query: Query, coverage: Coverage, resolution: Resolution, *, reserved: bool) -> None:
        inner = backend.create(query, coverage)
        if not isinstance(inner, Renderer):
            raise ContractError(f"backend {backend.name!r} created a {type(inner).__name__}, which isn't a Renderer")
        self.resolution = resolution
        self.backend = resolution.backend
        self.name = resolution.renderer
        self.has_bridge = resolution.has_bridge
        self.upstream = inner
        self.tokenizer = query.tokenizer
        self._made_of = (backend, query, coverage, resolution, reserved)
        self._lock = _lock_of(query.tokenizer)
        self._media = bool(getattr(inner, "supports_media", False))
        self._reasoning: tuple[int, int] | tuple[()] | None = getattr(inner, "reasoning_ids", None)
        self._names_results = bool(getattr(inner, "wants_result_names", True))
        self._drops_old_reasoning = query.thinking_retention == "tool_cycle"
        self._reserved = _reserved_texts(query.tokenizer) if reserved else ()
        with self._lock:
            self._stops = frozenset(inner.get_stop_token_ids())
            stop_strings = getattr(inner, "get_stop_strings", None)
            self._stop_strings = list(stop_strings()) if callable(stop_strings) else []

    def __repr__(self) -> str:
        return f"<{self.backend}:{self.name} for {self.resolution.model!r}, {'bridge' if self.has_bridge else 'no bridge'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, self._made_of

    # Rendering

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids with attribution; see :class:`Renderer`.

        Raises:
            MessageError, ToolError: The input can't be used; ``index`` tells which.
            RenderError: The backend's upstream refuses it.
        """
        out = self._rendered("render", messages, tools, add_generation_prompt)
        return _checked(out, self.backend)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Messages to ids; errors as in :meth:`render`."""
        return list(self._rendered("render_ids", messages, tools, add_generation_prompt))

    def _rendered(self, method: str, messages: Sequence[Message], tools: Sequence[Any] | None, opener: bool) -> Any:
        prepared = self._prepared(messages)
        declared = normalize_tools(tools)
        try:
            with self._lock:
                return getattr(self.upstream, method)(prepared, tools=declared, add_generation_prompt=opener)
        except RendererError:
            raise
        except Exception as error:
            raise RenderError(
                f"{self.backend}:{self.name} can't render these messages: {type(error).__name__}: {error}"
            ) from error

    def _prepared(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        out = normalize_messages(messages)
        if not self._media:
            refuse_media(out, f"{self.backend}:{self.name}")
        self._refuse_reserved(out)
        return fill_history(out) if self._names_results else out

    def _refuse_reserved(self, messages: list[dict[str, Any]]) -> None:
        for index, message in enumerate(messages if self._reserved else ()):
            text = message["content"] if not has_media(message) else "".join(p.get("text", "") for p in message["content"])
            for reserved in self._reserved:
                if message["role"] != "assistant" and reserved in text:
                    raise MessageError(
                        f"message {index} ({message['role']}) contains {reserved!r}, which is a control token of this model",
                        fix="escape it, or resolve with marker_text='allow'",
                        index=index,
                    )

    # Parsing and stops

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed; see :class:`Renderer`. Never raises. Calls of a format without ids get made-up ones."""
        ids = list(token_ids)
        out = self._parsed(ids, tools, prompt_ids)
        calls = [
            call
            if call.id is not None
            else ToolCall(call.name, call["function"]["arguments"], id=_made_up_id(ids, at), raw=call.raw, status=call.status)
            for at, call in enumerate(out.tool_calls)
        ]
        return replace(out, tool_calls=calls)

    def _parsed(
        self, ids: list[int], tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        try:
            declared = normalize_tools(tools)
        except ToolError:
            declared = None
        try:
            with self._lock:
                out = self.upstream.parse_response(ids, tools=declared, prompt_ids=prompt_ids)
            if not isinstance(out, ParsedResponse):
                raise ContractError(f"it returned {type(out).__name__} instead of ParsedResponse")
            return out
        except Exception as error:
            logger.warning("%s:%s can't parse a completion: %s: %s", self.backend, self.name, type(error).__name__, error)
            return ParsedResponse(termination=Termination.MALFORMED)

    def get_stop_token_ids(self) -> list[int]:
        """Ids at which an engine must stop sampling."""
        return sorted(self._stops)

    def get_stop_strings(self) -> list[str]:
        """Strings at which an engine must stop sampling; for formats whose stop isn't one token, and engines that take text."""
        return list(self._stop_strings)

    # The bridge

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """P + C and what follows, or ``None``: render the whole conversation again. The reason is logged.

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
        """As :meth:`bridge_to_next_turn`, but a decline comes back as a :class:`BridgeDeclined` with its ``reason``."""
        try:
            return self._bridge(
                _as_list(previous_prompt_ids), _as_list(previous_completion_ids), new_messages, tools, previous_message
            )
        except BridgeDeclined as declined:
            logger.info("%s:%s declined a bridge: %s", self.backend, self.name, declined.reason)
            return declined
        except Exception as error:
            if strict():
                raise
            if isinstance(error, ContractError):
                logger.warning("%s:%s broke the bridge contract: %s", self.backend, self.name, error)
            what = str(error).splitlines()[0] if isinstance(error, RendererError) else f"{type(error).__name__}: {error}"
            out = BridgeDeclined(what)
            out.__cause__ = error
            logger.info("%s:%s declined a bridge: %s", self.backend, self.name, what)
            return out

    def _bridge(
        self,
        prompt: list[int],
        sampled: list[int],
        new_messages: Sequence[Message],
        tools: Sequence[Any] | None,
        previous_message: Message | None,
    ) -> RenderedTokens:
        new = normalize_messages(new_messages)
        declared = normalize_tools(tools)
        previous = None if previous_message is None else normalize_messages([previous_message])[0]
        self._refuse_early(prompt, sampled, new)
        self._refuse_unfinished(prompt, sampled, declared)
        if results_in(new):
            if previous is None:
                previous = self._answered(prompt, sampled, new, declared)
            new = self._paired(sampled, new, declared, previous)
        with self._lock:
            out = self.upstream.bridge_to_next_turn(list(prompt), list(sampled), new, tools=declared, previous_message=previous)
        if out is None:
            raise BridgeDeclined(f"{self.backend}:{self.name} can't prove this bridge")
        return _checked_bridge(out, prompt, sampled, self.backend)

    def _refuse_early(self, prompt: list[int], sampled: list[int], new: list[dict[str, Any]]) -> None:
        """Declines that need nothing of the format."""
        if not prompt:
            raise BridgeDeclined("the previous prompt is empty")
        if not sampled:
            # What was bridged before this ends with an opener: closing that turn would leave an empty one in the history.
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
            if has_media(message) and not self._media:
                raise BridgeDeclined(f"new message {index} carries media, and {self.backend}:{self.name} bridges text alone")
        self._refuse_reserved(new)
        if sum(map(self._stops.__contains__, sampled)) > 1:
            raise BridgeDeclined("the completion has more than one stop")

    def _refuse_unfinished(self, prompt: list[int], sampled: list[int], tools: list[dict[str, Any]] | None) -> None:
        """Declines a completion that ends inside reasoning or inside a tool call."""
        stopped = not self._stops.isdisjoint(sampled)
        if stopped and self._reasoning is not None and not self._may_be_inside(prompt, sampled):
            return
        parsed = self._parsed(sampled, tools, prompt)
        if not parsed.reasoning_complete:
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if not stopped and any(call.status is ToolCallStatus.UNCLOSED_BLOCK for call in parsed.tool_calls):
            raise BridgeDeclined("the completion was cut off inside a tool call")

    def _may_be_inside(self, prompt: list[int], sampled: list[int]) -> bool:
        """Whether the last reasoning marker opens: cheap, and right but for markers in the text of a message."""
        if not self._reasoning:
            return False
        opening, closing = self._reasoning
        for ids in (sampled, prompt[-16:]):
            backwards = ids[::-1]
            if opening in backwards or closing in backwards:
                return opening in backwards[: backwards.index(closing) if closing in backwards else None]
        return False

    def _answered(
        self, prompt: list[int], sampled: list[int], new: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> dict[str, Any] | None:
        """The sampled message, where the results carry the very ids that ``parse_response`` gave its calls: then it is certain
        which answers which, though the format has no ids."""
        given = [new[index].get("tool_call_id") for index in results_in(new)]
        if not all(isinstance(each, str) and each.startswith(MADE_UP) for each in given):
            return None
        parsed = self.parse_response(sampled, tools=tools, prompt_ids=prompt)
        if not parsed.tool_calls or any(call.status is not ToolCallStatus.OK for call in parsed.tool_calls):
            return None
        if not set(given) <= {call.id for call in parsed.tool_calls}:
            return None
        return normalize_messages([parsed.to_message()])[0]

    def _paired(
        self,
        sampled: list[int],
        new: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        previous: dict[str, Any] | None,
    ) -> list[dict[str, Any]]:
        """New messages whose results have the names of their calls, as far as that is certain."""
        results = [new[index] for index in results_in(new)]
        if previous is not None:
            calls = calls_of(previous)
            known = {call_id for _, call_id in calls if call_id is not None}
            for result in results:
                if known and result.get("tool_call_id") is not None and result["tool_call_id"] not in known:
                    raise BridgeDeclined(f"no call of the previous message has the id {result['tool_call_id']!r}")
            return fill_results(calls, new) if self._names_results else new
        if not self._names_results or all(result.get("name") and result.get("tool_call_id") for result in results):
            return new
        parsed = self._parsed(sampled, tools)
        return fill_results(sampled_calls(parsed), new)


def sampled_calls(parsed: ParsedResponse) -> list[Call]:
    """Names and native ids of the calls in a parsed completion; empty where one of them is broken."""
    if any(call.status is not ToolCallStatus.OK for call in parsed.tool_calls):
        return []
    return [(call.name, call.id) for call in parsed.tool_calls]


def _restore(backend: Backend, query: Query, coverage: Coverage, resolution: Resolution, reserved: bool) -> ResolvedRenderer:
    return ResolvedRenderer(backend, query, coverage, resolution, reserved=reserved)


def _as_list(ids: Sequence[int]) -> list[int]:
    """The ids as a list; not copied where they are one: the backend gets its own copy, and a history may be long."""
    if type(ids) is list:
        return ids
    to_list = getattr(ids, "tolist", None)  # an array of NumPy or torch, whose items aren't ints
    return list(to_list() if callable(to_list) else ids)


def _checked(out: Any, backend: str) -> RenderedTokens:
    if not isinstance(out, RenderedTokens):
        raise ContractError(f"backend {backend!r} returned {type(out).__name__} instead of RenderedTokens")
    if not isinstance(out.token_ids, list):
        raise ContractError(f"backend {backend!r} returned token_ids as {type(out.token_ids).__name__} instead of a list")
    for name in ("message_indices", "sampled_mask"):
        values = getattr(out, name)
        if values is not None and len(values) != len(out.token_ids):
            raise ContractError(f"backend {backend!r}: {name} has {len(values)} entries for {len(out.token_ids)} ids")
    return out


def _checked_bridge(out: Any, prompt: list[int], sampled: list[int], backend: str) -> RenderedTokens:
    """The third outcome that never is: a bridge that isn't P + C and more."""
    bridged = _checked(out, backend)
    ids, size = bridged.token_ids, len(prompt) + len(sampled)
    behind = ids[len(prompt) :]
    del ids[len(prompt) :]  # compared without a copy of the history, and put back
    starts_with_prompt = ids == prompt
    ids.extend(behind)
    if not starts_with_prompt or behind[: len(sampled)] != sampled:
        raise ContractError(f"backend {backend!r} returned a bridge that doesn't start with P + C")
    if len(ids) <= size:
        raise ContractError(f"backend {backend!r} returned a bridge that adds nothing to P + C")
    if not all(type(token) is int for token in ids[size:]):
        raise ContractError(f"backend {backend!r} returned a bridge with ids that aren't int")
    indices = None if bridged.message_indices is None else bridged.message_indices[size:]
    mask = [False] * (len(ids) - size) if bridged.sampled_mask is None else bridged.sampled_mask[size:]
    return BridgedTokens(ids, size, indices, mask, bridged.multi_modal_data)


class BridgedTokens(RenderedTokens):
    """A bridge's tokens, whose attribution is put together when it is read: on a long history that costs as much as all else.

    Over P + C, of ``known_from`` ids, the attribution is ``None``; nothing behind them was sampled.
    """

    def __init__(
        self, token_ids: list[int], known_from: int, indices: list[Any] | None, mask: list[Any], multi_modal_data: Any
    ) -> None:
        self.token_ids = token_ids
        self.multi_modal_data = multi_modal_data
        self._known_from, self._indices, self._mask = known_from, indices, mask

    @cached_property
    def message_indices(self) -> list[int | None] | None:  # type: ignore[override]
        return None if self._indices is None else self._behind_history(self._indices)

    @cached_property
    def sampled_mask(self) -> list[bool | None] | None:  # type: ignore[override]
        return self._behind_history(self._mask)

    def _behind_history(self, values: list[Any]) -> list[Any]:
        out: list[Any] = [None] * self._known_from
        out.extend(values)
        return out


def _made_up_id(ids: list[int], at: int) -> str:
    """An id for a call of a format that has none: the same for the same completion, so that nothing depends on chance."""
    import hashlib

    digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
    return f"{MADE_UP}{digest[:16]}_{at}"


def _reserved_texts(tokenizer: Any) -> tuple[str, ...]:
    return tuple(sorted(added_tokens(tokenizer)))


_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


def _lock_of(tokenizer: Any) -> Any:
    """One lock a tokenizer: fast tokenizers raise "already borrowed" when two threads set their padding or truncation."""
    with _locks_guard:
        try:
            return _locks.setdefault(tokenizer, threading.RLock())
        except TypeError:  # neither hashable nor weakly referable: then a renderer's own lock has to do
            return threading.RLock()
