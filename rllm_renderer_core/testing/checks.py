"""What the conformance suite asserts, as functions: each says in its message what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from ..errors import BridgeDeclined, ContractError, RendererError
from ..normal_form.ids import BridgedTokens, common_prefix
from ..normal_form.messages import normalize_messages
from ..normal_form.tokenizer import added_tokens, control_ids
from ..normal_form.tools import normalize_tools
from ..renderer.resolved import ResolvedRenderer
from ..types import ParsedResponse, RenderedTokens, Termination, ToolCall, ToolCallStatus
from .turns import OPENING, REASONING, TEXT, Turn, declared_tools, user


def completions(resolved: ResolvedRenderer, turn: Turn, reasoning: bool) -> Iterator[tuple[list[int], list[int]]]:
    """Prompt and completion as the turn would have been sampled, with each stop where the format closes nothing itself."""
    prompt = resolved.render_ids(OPENING, tools=turn.tools, add_generation_prompt=True)
    message = {**turn.assistant, **({"reasoning_content": REASONING} if reasoning else {})}
    try:
        whole = resolved.render_ids([*OPENING, message], tools=turn.tools)
    except RendererError as error:
        pytest.skip(f"the renderer can't end a conversation with an assistant turn: {error}")
    sampled = whole[common_prefix(prompt, whole) :]
    stops = resolved.get_stop_token_ids()
    at = max((index for index, token in enumerate(sampled) if token in stops), default=None)
    if at is not None:
        yield prompt, sampled[: at + 1]
    else:
        yield from ((prompt, [*sampled, stop]) for stop in stops)


def closing_ids(resolved: ResolvedRenderer) -> frozenset[int]:
    """Control tokens: what can close a turn."""
    return control_ids(resolved.tokenizer) | frozenset(resolved.get_stop_token_ids())


def oracle_of(resolved: ResolvedRenderer, oracle: Callable[..., Any] | None) -> Any:
    """A second bridge over full renders of the same renderer (see ``Capabilities.oracle``); ``None`` where there is none."""
    if oracle is None:
        return None
    render = partial(resolved.render_ids, add_generation_prompt=True)
    return oracle(lambda messages, tools: render(messages, tools=tools), resolved.get_stop_token_ids(), closing_ids(resolved))


def check_delta(
    resolved: ResolvedRenderer, oracle: Any, turn: Turn, prompt: list[int], sampled: list[int], out: BridgedTokens, closes: bool
) -> None:
    """Against the conversation rendered as a whole, and against the seam where it proves a bridge."""
    delta, tools = out.token_ids[len(prompt) + len(sampled) :], normalize_tools(turn.tools)
    whole = resolved.render_ids([*OPENING, turn.assistant, *turn.new], tools=turn.tools, add_generation_prompt=True)
    before, behind = whole[: len(whole) - len(delta)], whole[len(whole) - len(delta) :]
    assert delta == behind, "the delta isn't how the whole conversation, rendered, ends"
    closing = closing_ids(resolved)
    behind_close = bool(before) and before[-1] in closing
    # A stop that no history shows (GLM's <|endoftext|>) is followed by the close that history shows, a role's tag.
    with_close = delta[0] in closing and sampled[-1:] != delta[:1] and sampled[-1] not in whole
    assert not closes or behind_close or with_close, "the delta doesn't start right behind the turn's close"
    if oracle is None:
        return
    try:
        previous, *new = normalize_messages(turn.messages)
        proven = oracle.bridge_to_next_turn(prompt, sampled, new, tools=tools, previous_message=previous)
    except BridgeDeclined:
        return
    assert delta == proven.token_ids[len(prompt) + len(sampled) :], "the delta differs from what the seam proves"


def bridge(resolved: ResolvedRenderer, prompt: list[int], sampled: list[int], turn: Turn) -> BridgedTokens | BridgeDeclined:
    """A bridge, checked for the prefix guarantee: prompt, completion and more, or a decline."""
    out = resolved.try_bridge(prompt, sampled, turn.new, tools=turn.tools, previous_message=turn.assistant)
    if isinstance(out, BridgeDeclined):
        assert not isinstance(out.__cause__, ContractError), f"the bridge contract is broken: {out.__cause__}"
        return out
    start = prompt + sampled
    assert out.token_ids[: len(start)] == start, "a bridge must start with the prompt and completion, id for id"
    assert len(out.token_ids) > len(start), "a bridge must add to the prompt and completion"
    if out.sampled_mask is not None:
        assert len(out.sampled_mask) == len(out.token_ids)
        assert True not in out.sampled_mask[len(start) :], "nothing of a delta was sampled"
    if out.message_indices is not None:
        assert len(out.message_indices) == len(out.token_ids)
        known = {None, *range(-1, len(turn.new))}
        assert known.issuperset(out.message_indices[len(start) :]), "message_indices of a delta count the new messages"
    return out


def ids_of_bridge(on: Any, prompt: Any, sampled: Any, new: Any, tools: Any, previous: Any) -> list[int] | str:
    """The ids of a bridge, or why there are none, to compare with another."""
    try:
        out = on.bridge_to_next_turn(prompt, sampled, new, tools=tools, previous_message=previous)
    except RendererError as error:
        return f"{type(error).__name__}: {error}"
    return "None" if out is None else list(out.token_ids)


def check_attribution(out: RenderedTokens, roles: list[str]) -> None:
    """Attribution has an entry for each id, and only assistants' tokens are sampled."""
    indices, mask = out.message_indices, out.sampled_mask
    if indices is not None:
        assert len(indices) == len(out.token_ids)
        assert {None, *range(-1, len(roles))}.issuperset(indices), "message_indices must be -1 or the index of a message"
    if mask is not None:
        assert len(mask) == len(out.token_ids)
        for index, sampled in zip(indices or (), mask, strict=False):
            assert not sampled or index is None or (index >= 0 and roles[index] == "assistant"), "only assistants sample"


def check_parsed(parsed: Any) -> None:
    """A parsed completion has the declared types, and no call that is OK without a name."""
    assert isinstance(parsed, ParsedResponse)
    assert isinstance(parsed.content, str)
    assert parsed.reasoning_content is None or isinstance(parsed.reasoning_content, str)
    assert isinstance(parsed.termination, Termination)
    for call in parsed.tool_calls:
        assert isinstance(call, ToolCall)
        assert call.name or call.status is not ToolCallStatus.OK, "a call without a name can't be OK"


def check_threads(jobs: list[Callable[[], Any]]) -> None:
    """16 threads, switching as often as possible, get what one gets."""
    serial = [job() for job in jobs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(16) as pool:
            for _ in range(4):
                parallel = list(pool.map(lambda job: job(), jobs))
                assert parallel == serial, "16 threads give other results than one"
    finally:
        sys.setswitchinterval(interval)


def markers(resolved: ResolvedRenderer) -> dict[str, int]:
    """Control tokens that a plain conversation shows."""
    seen = set(resolved.render_ids([*OPENING, TEXT, user("And lids?")]))
    return {text: token for text, token in added_tokens(resolved.tokenizer).items() if token in seen}


def fate(resolved: ResolvedRenderer, messages: list[dict[str, Any]], text: str, token: int) -> str:
    """What becomes of a control token's text in the last message."""
    tools = declared_tools() if messages[-1]["role"] == "tool" else None
    counts = []
    for content in ("say it twice", f"say {text} twice"):
        try:
            ids = resolved.render_ids([*messages[:-1], {**messages[-1], "content": content}], tools=tools)
        except RendererError:
            return "refused"
        counts.append(ids.count(token))
    return "control" if counts[1] > counts[0] else "text"
