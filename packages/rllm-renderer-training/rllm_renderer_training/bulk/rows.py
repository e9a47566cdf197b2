"""Rows of data sets as conversations: OpenAI's ``messages``, or ShareGPT's ``conversations``.

A row may say more than its conversation. What is certain is honoured: ``tools`` or ``functions``, ``system``, a weight for each
message. What would change the prompt or the loss and can't be honoured is refused by its name. ``HARMLESS`` lists keys that
change neither; any other is reported, and refused under ``strict``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rllm_renderer_core.errors import MessageError, ToolError
from rllm_renderer_core.normal_form.tools import normalize_tools

from ..sequences.omitted_parts import API_KEYS
from ..sequences.weights import UNCERTAIN_KEYS, WEIGHT_KEYS, refuse_uncertain

CONVERSATIONS = ("messages", "conversations")
TEMPLATE_KEYS = ("enable_thinking", "thinking", "reasoning_effort")
"""Variables of chat templates that rows have beside, or in, ``chat_template_kwargs``."""
REFUSED = ("chat_template", "documents", "images", "videos", "audios", "mask_history")
"""Keys that change the prompt or the loss in other trainers, and can't be honoured in a row."""
COLUMNS = (
    *(*CONVERSATIONS, "tools", "functions", "system", "chat_template_kwargs"),
    *(*TEMPLATE_KEYS, *REFUSED, *WEIGHT_KEYS, *UNCERTAIN_KEYS),
)
"""What of a row is read."""

_HARMLESS = """
_id annotations answer_id author category conversation_hash conversation_id created created_at data_source dataset date
difficulty domain extra_info finish_reason hash id idx index instruction_id intent is_correct key lang language license meta
metadata model model_name n_turns name num_tokens num_turns original_index origin parallel_tool_calls problem_id prompt_id
quality quality_score question_id rating redacted revision row row_id score scores seed session_id source source_url split
subset tag tags task task_id time timestamp title token_count topic toxic turn turn_id turns updated_at url usage user_id uuid
version
"""
HARMLESS = frozenset(_HARMLESS.split())
"""Keys of rows and messages that change neither prompt nor loss: ids, sources, scores, dates, counts, labels of a subject."""

_MESSAGE_KEYS = frozenset(
    {
        *("role", "content", "reasoning_content", "reasoning", "tool_calls", "tool_call_id", "from", "value"),
        *(*API_KEYS, *WEIGHT_KEYS, *UNCERTAIN_KEYS),
    }
)


class Conversation(NamedTuple):
    """What a row says."""

    messages: list[Any]  # a ``system`` in front
    tools: list[Any] | None  # None where there are none
    unread: list[str]  # keys with a value that nobody reads, and that may say how to train; of messages as messages.KEY


SHAREGPT_ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {
    **{"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool"}
}


def conversation_of(
    row: Mapping[str, Any], *, columnar: bool = True, options: Mapping[str, Any] | None = None, strict: bool = False
) -> Conversation:
    """The messages of a row, and its tools.

    Args:
        row: With ``messages`` or ``conversations``, which like all columns may be JSON text.
        columnar: The row comes from columns, where nulls are no values. It may not have nulls in arguments and tools, but for
            properties of a tool's schema: those are the other tools', and no renderer gets them.
        options: Of the resolution: a row's variables of the template must be these.
        strict: Refuse keys that nobody reads.

    Raises:
        MessageError, ToolError: The row can't be read as a conversation, or what it says can't be honoured.
    """
    refuse_uncertain(row, "the row")
    _refuse_other_prompt(row, options or {})
    tools = _tools_of(row, columnar=columnar)
    messages, shared = (_parsed(row.get(name), name) for name in CONVERSATIONS)
    if messages is None and shared is None:
        raise MessageError("the row has neither messages nor conversations")
    said = shared if messages is None else messages
    if not isinstance(said, list):
        raise MessageError(f"{'conversations' if messages is None else 'messages'} must be a list, not {type(said).__name__}")
    if messages is None:
        messages = _from_sharegpt(said)  # its calls are JSON text in any case
    elif columnar and not isinstance(row["messages"], str):
        _refuse_null_arguments(messages)
    unread = _unread(row, said)
    if unread and strict:
        raise MessageError(
            f"nobody reads {', '.join(unread)}, which may say how to train", fix="take them out, or leave strict out"
        )
    return Conversation(_with_system(_weighted(messages, row), row.get("system")), tools or None, unread)


def _tools_of(row: Mapping[str, Any], *, columnar: bool) -> list[Any] | None:
    """``tools``, or OpenAI's older ``functions``."""
    declared: list[Any] | None = None
    for key in ("tools", "functions"):
        tools = _parsed(row.get(key), key)
        if not tools:
            continue
        if not isinstance(tools, list):
            raise ToolError(f"{key} must be a list, not {type(tools).__name__}")
        if columnar and not isinstance(row.get(key), str):
            _refuse_nulls(normalize_tools(tools), key)  # what isn't a null property
        if declared and normalize_tools(tools) != normalize_tools(declared):
            raise ToolError("the row has tools and other functions", fix="keep one of them")
        declared = declared or tools
    return declared


def _refuse_other_prompt(row: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raises for what would change the prompt, unless the renderer was resolved with just that."""
    for key in REFUSED:
        if row.get(key) not in (None, "", [], {}, False):
            raise MessageError(f"the row has {key}, which can't be honoured here", fix="take it out, or leave the row out")
    wanted = {key: row[key] for key in TEMPLATE_KEYS if row.get(key) is not None}
    given = _parsed(row.get("chat_template_kwargs"), "chat_template_kwargs") or {}
    if not isinstance(given, Mapping):
        raise MessageError(f"chat_template_kwargs must be an object, not {type(given).__name__}")
    wanted.update({key: value for key, value in given.items() if value is not None})
    resolved = dict(options.get("chat_template_kwargs") or {})
    if options.get("thinking") is not None:
        resolved.update(enable_thinking=options["thinking"], thinking=options["thinking"])
    for key, value in wanted.items():
        if key not in resolved or resolved[key] != value:
            raise MessageError(
                f"the row has {key}={str(value)[:40]!r} for the chat template, and the renderer wasn't resolved with it",
                fix="resolve with thinking= or chat_template_kwargs=, and map the rows that have the same together",
            )


def _weighted(messages: list[Any], row: Mapping[str, Any]) -> list[Any]:
    """The messages with the row's weights: ``loss_mask: [0, 0, 0, 1]`` is one for each message; 1 alone says nothing."""
    for key in WEIGHT_KEYS:
        given = _parsed(row.get(key), key) if isinstance(row.get(key), str) else row.get(key)
        if given is None or (isinstance(given, (bool, int, float)) and given == 1):
            continue
        if not isinstance(given, list) or len(given) != len(messages):
            raise MessageError(
                f"the row has {key}={str(given)[:40]}, which isn't one weight for each of its {len(messages)} messages",
                fix=f"give each message its own {key}, or take the key out of the row",
            )
        messages = [_with_weight(index, *pair, key) for index, pair in enumerate(zip(messages, given, strict=True))]
    return messages


def _with_weight(index: int, message: Any, weight: Any, key: str) -> Any:
    if not isinstance(message, Mapping) or weight is None:
        return message
    if message.get(key, weight) not in (None, weight):
        raise MessageError(f"message {index}: its {key} and the row's disagree", fix="keep one of them", index=index)
    return {**message, key: weight}


def _with_system(messages: list[Any], system: Any) -> list[Any]:
    if not isinstance(system, (str, type(None))):
        raise MessageError(f"system must be text, not {type(system).__name__}")
    first = messages[0] if messages and isinstance(messages[0], Mapping) else {}
    if not system or (first.get("role") in ("system", "developer") and first.get("content") == system):
        return messages
    if first.get("role") in ("system", "developer"):
        raise MessageError("the row has a system text beside another one in its first message", fix="keep one of them", index=0)
    return [{"role": "system", "content": system}, *messages]


def _unread(row: Mapping[str, Any], said: list[Any]) -> list[str]:
    own = {key for message in said if isinstance(message, Mapping) for key in message if message[key] is not None}
    beside = {key for key in row if row[key] is not None}
    return [
        *sorted(beside - HARMLESS - {*COLUMNS}),
        *(f"messages.{key}" for key in sorted(own - HARMLESS - _MESSAGE_KEYS)),
    ]


def _refuse_null_arguments(messages: Sequence[Any]) -> None:
    for index, message in enumerate(messages):
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        for call in calls if isinstance(calls, list) else ():  # what else it is, the messages' own check says
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                _refuse_nulls(function.get("arguments"), f"message {index}: arguments")


def _parsed(value: Any, what: str) -> Any:
    """The value of JSON text, where it is text; of blank text none."""
    if isinstance(value, str):
        try:
            return json.loads(value) if value.strip() else None
        except (ValueError, RecursionError) as error:
            raise MessageError(f"{what} is text, and not JSON: {error}") from None
    return value


def _refuse_nulls(value: Any, what: str) -> None:
    """Columnar files give every mapping of a column the keys of all, as nulls: which were in the data isn't known any more."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if inner is None:
                raise MessageError(
                    f"{what} have {key!r} as null, which a columnar file adds where other rows have that key",
                    fix="store it as JSON text",
                )
            _refuse_nulls(inner, what)
    elif isinstance(value, list):
        for inner in value:
            _refuse_nulls(inner, what)


def _from_sharegpt(turns: list[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for index, turn in enumerate(turns):
        role = SHAREGPT_ROLES.get(str(turn.get("from"))) if isinstance(turn, Mapping) else None
        value = turn.get("value") if isinstance(turn, Mapping) else None
        if role is None or not isinstance(value, str):
            raise MessageError(f"conversations: turn {index} has no known from and text value", index=index)
        message: dict[str, Any] = {"role": role, "content": value}
        if turn["from"] == "function_call":
            call = _parsed(value, f"conversations: turn {index}")
            if not isinstance(call, Mapping) or not call.get("name"):
                raise MessageError(f"conversations: turn {index} is a function_call without a name", index=index)
            function = {"name": str(call["name"]), "arguments": call.get("arguments", {})}
            message = {"role": role, "content": "", "tool_calls": [{"function": function}]}
        weights = {key: turn[key] for key in (*WEIGHT_KEYS, *UNCERTAIN_KEYS) if turn.get(key) is not None}
        messages.append({**message, **weights})
    return messages
