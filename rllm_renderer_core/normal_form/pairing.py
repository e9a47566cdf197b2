"""Which tool result answers which call: decided once, for all backends.

Completions of most formats carry no call ids, and clients send results without ``name``. A pairing is certain when every
result's id is the id of a call, or when there is one call and one result. A name is certain also when all calls share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from ..errors import MessageError
from ..types import ParsedResponse
from .messages import normalize_messages

AnyMessage = TypeVar("AnyMessage", bound=Mapping[str, Any])

GENERATED_ID = "call_"
"""How the ids start that ``parse_response`` gives to calls of a format without ids."""

Call = tuple[str, str | None]
"""Name and id (``None`` where the format has none) of one call, in the order in which the model wrote them."""


def calls_of(message: Mapping[str, Any]) -> list[Call]:
    """The calls of a normalised assistant message."""
    return [(call["function"]["name"], call.get("id")) for call in message.get("tool_calls") or ()]


def answered_turn(message: Any) -> dict[str, Any] | None:
    """The turn that results answer, in normal form, as the client sent it back; ``None`` where it says nothing.

    Only its calls' names and ids matter here, and whether it has text: what was sampled is in the completion. So nothing else
    that is wrong with it, such as arguments that aren't JSON or a part of an unknown type, costs a bridge.
    """
    out: dict[str, Any] | None
    try:
        out = normalize_messages([message])[0]
    except MessageError:
        out = _calls_alone(message)
    if out is not None and not isinstance(out["content"], str):
        out = {**out, "content": "".join(part.get("text") or f"[{part['type']}]" for part in out["content"])}
    return out if out is not None and out["role"] == "assistant" else None


def _calls_alone(message: Any) -> dict[str, Any] | None:
    """Names and ids of the calls of a message that has no normal form."""
    if not isinstance(message, Mapping) or message.get("role") != "assistant":
        return None
    content, calls = message.get("content"), message.get("tool_calls")
    out = {"role": "assistant", "content": "" if not content else content if isinstance(content, str) else "[content]"}
    named = []
    for call in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            return None
        known = {} if call.get("id") is None else {"id": str(call["id"])}
        named.append({**known, "type": "function", "function": {"name": name, "arguments": "{}"}})
    return {**out, "tool_calls": named} if named else out


def sampled_calls(parsed: ParsedResponse) -> list[Call]:
    """Names and native ids of the calls in a parsed completion; empty where one of them is broken."""
    if not all(call.sound for call in parsed.tool_calls):
        return []
    return [(call.name, call.id) for call in parsed.tool_calls]


def results_in(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of the tool results among the messages."""
    return [index for index, message in enumerate(messages) if message["role"] == "tool"]


def certain_pairing(calls: Sequence[Call], results: Sequence[Mapping[str, Any]]) -> list[Call] | None:
    """The calls with the ids that the results use, or ``None`` where it isn't certain which result answers which call."""
    wanted = [result.get("tool_call_id") for result in results]
    known = [call_id for _, call_id in calls]
    if calls and None not in wanted and None not in known and len(set(known)) == len(known) and set(wanted) <= set(known):
        return list(calls)
    if len(calls) == len(results) == 1:
        name, call_id = calls[0]
        if call_id is None or wanted[0] is None or wanted[0] == call_id:
            return [(name, wanted[0] or call_id)]
    return None


def places_among(calls: Sequence[Any], results: Sequence[Any]) -> list[int] | None:
    """Each result's place among the calls, by ids or by names that no two share; ``None`` where it isn't certain."""
    if None in calls or len(set(calls)) < len(calls) or len(set(results)) < len(results) or not set(results) <= set(calls):
        return None
    return [calls.index(each) for each in results]


def in_call_order(messages: Sequence[AnyMessage], places: Sequence[int]) -> list[AnyMessage]:
    """The messages with their tool results sorted by ``places``; all others stay where they are."""
    out, at = list(messages), results_in(messages)
    for index, place in zip(at, sorted(range(len(at)), key=places.__getitem__), strict=True):
        out[index] = messages[at[place]]
    return out


def paired(
    new: list[dict[str, Any]],
    previous_message: Any,
    *,
    fills_names: bool,
    parse: Callable[[], ParsedResponse],
    parse_checked: Callable[[], ParsedResponse],
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """New messages of a bridge whose results have the names of their calls, where that is certain, and the turn before them.

    Args:
        new: In normal form.
        previous_message: The assistant's turn as the client sent it back, or ``None``.
        fills_names: Whether the format shows a name that the client didn't give.
        parse: The completion, parsed, with the ids of calls that the format itself has.
        parse_checked: The same as ``parse_response`` gives it, with generated ids.
    """
    previous = None if previous_message is None else answered_turn(previous_message)
    results = [new[index] for index in results_in(new)]
    if not results:
        return new, previous
    given = {result.get("tool_call_id") for result in results}
    if previous is None and all(isinstance(each, str) and each.startswith(GENERATED_ID) for each in given):
        # The very ids that ``parse_response`` gave: it is certain which answers which, though the format has no ids.
        parsed = parse_checked()
        sound = parsed.tool_calls and all(call.sound for call in parsed.tool_calls)
        if sound and given <= {call.id for call in parsed.tool_calls}:
            previous = normalize_messages([parsed.to_message()])[0]
    if previous is not None:
        calls = calls_of(previous)
        known = {call_id for _, call_id in calls if call_id is not None}
        if not known or given - {None} <= known:
            return (fill_results(calls, new) if fills_names else new), previous
        # The client wrote its own ids: which result answers which call is not to be had from the message.
    if not fills_names or all(result.get("name") and result.get("tool_call_id") for result in results):
        return new, None
    return fill_results(sampled_calls(parse()), new), None


def fill_results(calls: Sequence[Call], messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages whose tool results have the ``name`` (and, where one call and one result make it certain, the id) of their
    call. What isn't certain stays as it is; a name that the caller gave is never changed."""
    at = results_in(messages)
    if not at or not calls:
        return messages
    by_id = {call_id: name for name, call_id in calls if call_id is not None}
    names = {name for name, _ in calls}
    pairing = certain_pairing(calls, [messages[index] for index in at])
    out = list(messages)
    for index in at:
        message = out[index]
        given = message.get("tool_call_id")
        extra: dict[str, Any] = {}
        if pairing is not None and len(calls) == len(at) == 1:
            extra = dict(zip(("name", "tool_call_id"), pairing[0], strict=True))
        elif given in by_id:
            extra = {"name": by_id[given]}
        elif len(names) == 1 and (given is None or not by_id):
            extra = {"name": next(iter(names))}
        out[index] = {**message, **{key: value for key, value in extra.items() if value is not None and not message.get(key)}}
    return out


def fill_history(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A whole conversation whose tool results have the name of their call, taken from the assistant turn before them."""
    filled: list[dict[str, Any]] = []
    calls: list[Call] = []
    for are_results, group in groupby(messages, key=lambda message: message["role"] == "tool"):
        together = list(group)
        filled += fill_results(calls, together) if are_results else together
        for message in together:
            calls = calls_of(message) if message["role"] == "assistant" else calls
    return filled
