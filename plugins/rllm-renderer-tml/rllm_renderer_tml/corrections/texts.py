"""Rows about roles, texts and reasoning."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rllm_renderer_core.errors import MessageError

from ..conversion import BREAK
from .context import Context, Messages, Row


def trim(*roles: str) -> Row:
    """Texts of these roles without white space at their edges, as Jinja's ``trim`` cuts it."""

    def rewrite(messages: Messages, context: Context) -> Messages:
        return [
            {**message, "content": _stripped(message["content"], context)} if message["role"] in roles else message
            for message in messages
        ]

    return rewrite


def _stripped(content: Any, context: Context) -> Any:
    """A text without white space at its edges; of parts, before the first and behind the last, as upstream trims each."""
    if isinstance(content, str):
        return content.strip()
    out = list(content)
    if out[0]["type"] == "text":
        out[0] = {**out[0], "text": out[0]["text"].lstrip()}
    if out[-1]["type"] == "text":
        out[-1] = {**out[-1], "text": out[-1]["text"].rstrip()}
    return [
        {**part, "text": context.splices.hold(part["text"])} if part.get("text", "") != part.get("text", "").strip() else part
        for part in out
    ]


def unnamed_results(messages: Messages, context: Context) -> Messages:
    """Results without a name under their role; upstream would look the name up by the id of the call."""
    return [{**each, "name": "tool"} if each["role"] == "tool" and not each.get("name") else each for each in messages]


def _without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def drop_reasoning(messages: Messages, context: Context) -> Messages:
    """Messages without reasoning."""
    return [_without_reasoning(message) for message in messages]


def drop_answered_reasoning(messages: Messages, context: Context) -> Messages:
    """Without the reasoning of turns that end in text, whatever follows them."""
    return [message if message.get("tool_calls") else _without_reasoning(message) for message in messages]


def last_query(messages: Messages) -> int:
    """Index of the last user's message that isn't a tool result in a user's clothes; Qwen's templates look for it."""
    return next((at for at in reversed(range(len(messages))) if is_query(messages[at])), len(messages) - 1)


def is_query(message: dict[str, Any]) -> bool:
    """Whether a user speaks, and not a tool in a user's clothes."""
    content = message["content"]
    if message["role"] != "user" or not isinstance(content, str):
        return bool(message["role"] == "user")
    return not (content.startswith("<tool_response>") and content.endswith("</tool_response>"))


def qwen3_reasoning(messages: Messages, context: Context) -> Messages:
    """Reasoning behind the last query, in the template's frame; none before. Upstream frames a last turn itself, where the
    model reasons."""
    query = last_query(messages)
    reasons = context.arguments.get("support_thinking", True)
    out = list(messages)
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        reasoning = (message.get("reasoning_content") or "").strip("\n")
        last = at == len(messages) - 1
        bare = _without_reasoning(message)
        if at <= query or not (reasoning or last):
            out[at] = bare
        elif last:
            out[at] = {**bare, "content": message["content"].lstrip("\n")} if reasons else bare
            if reasoning:
                out[at]["reasoning_content"] = reasoning
        else:
            text = "\n\n" + message["content"].lstrip("\n")
            # Upstream ends text with a newline before calls; where there is no text, the template doesn't.
            alone = bool(message.get("tool_calls")) and text == "\n\n"
            hold = context.splices.hold
            out[at] = {
                **bare,
                "reasoning_content": hold(f"\n{reasoning}\n"),
                "content": hold(text, after="\n" if alone else ""),
            }
    return out


def empty_text(messages: Messages, context: Context) -> Messages:
    """Calls without a text beside them with an empty one."""
    return [
        {**each, "content": context.splices.hold()} if each.get("tool_calls") and not each["content"] else each
        for each in messages
    ]


def before_calls(ending: str) -> Row:
    """Text beside calls with an ending that upstream leaves out."""

    def rewrite(messages: Messages, context: Context) -> Messages:
        return [
            {**message, "content": context.splices.hold(message["content"] + ending)}
            if message.get("tool_calls") and isinstance(message["content"], str) and message["content"]
            else message
            for message in messages
        ]

    return rewrite


def nemotron(messages: Messages, context: Context) -> Messages:
    """Texts that upstream would trim, and the newline before a call, as placeholders."""
    asked = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    out = list(messages)
    for at, message in enumerate(messages):
        content = message["content"]
        if not isinstance(content, str):
            continue
        if message["role"] != "assistant":
            if content != content.strip():
                out[at] = {**message, "content": context.splices.hold(content)}
            continue
        if message.get("tool_calls"):
            text = content.rstrip() + "\n"
            text = text.lstrip("\n") if message.get("reasoning_content") and at > asked else text
            out[at] = {**message, "content": context.splices.hold(text)}
        elif content != content.strip():
            out[at] = {**message, "content": context.splices.hold(content.rstrip())}
    return out


def unquoted_results(messages: Messages, context: Context) -> Messages:
    """Results without the quotation marks that the template puts around them."""
    return [
        {**message, "content": context.splices.hold(message["content"], before='"', after='"')}
        if message["role"] == "tool" and isinstance(message["content"], str)
        else message
        for message in messages
    ]


def constrained(ids: list[int], context: Context) -> list[int]:
    """``<|constrain|>`` before the ``json`` of a call, which the template leaves out."""
    kind, message, start = context.vocabulary.encode_ordinary(" json"), context.tag("message"), context.tag("channel")
    said = [*context.vocabulary.encode_ordinary("commentary"), *kind, message]
    wanted = [*said[: len(said) - len(kind) - 1], *context.vocabulary.encode_ordinary(" "), context.tag("constrain")]
    wanted += [*context.vocabulary.encode_ordinary("json"), message]
    out: list[int] = []
    at = 0
    while at < len(ids):
        if ids[at] == start and ids[at + 1 : at + 1 + len(said)] == said:
            out += [start, *wanted]
            at += 1 + len(said)
        else:
            out.append(ids[at])
            at += 1
    return out


def collect_systems(messages: Messages, context: Context) -> Messages:
    """All system texts as one at the start, with an empty line between."""
    systems = [message for message in messages if message["role"] == "system"]
    if len(systems) < 2 and (not systems or messages[0]["role"] == "system"):
        return messages
    rest = [message for message in messages if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(message["content"] for message in systems)}, *rest]


def apart_by_break(kind: str) -> Row:
    """Two messages of one role in a row, kept apart by an end of sampling, which writes nothing there."""

    def rewrite(messages: Messages, context: Context) -> Messages:
        if not any(_same(one, other) for one, other in pairwise(messages)):
            return messages
        out: Messages = []
        for message in messages:
            if out and _same(out[-1], message):
                out.append({"role": BREAK, "kind": kind, "content": ""})
            out.append(message)
        return out

    return rewrite


def apart_by_tags(*tags: str) -> Row:
    """Two users' messages in a row as one, with the control tokens of a turn's end and a new user's turn between them.

    Args:
        tags: Upstream's names of control tokens; among several, ``"user"`` is a word of the header.
    """

    def rewrite(messages: Messages, context: Context) -> Messages:
        out: Messages = []
        for message in messages:
            if not out or not _same(out[-1], message) or message["role"] != "user":
                out.append(message)
                continue
            if not isinstance(out[-1]["content"], str) or not isinstance(message["content"], str):
                raise MessageError(
                    "backend 'tml' can't render two users in a row with images as the template does",
                    fix="put them into one message, or choose another backend=",
                )
            pieces = [tag if tag == "user" and len(tags) > 1 else context.tag(tag) for tag in tags]
            out[-1] = {**out[-1], "content": out[-1]["content"] + context.splices.hold(*pieces) + message["content"]}
        return out

    return rewrite


def joined_users(messages: Messages, context: Context) -> Messages:
    """Users' messages in a row as one, an empty line between them."""
    out: Messages = []
    for message in messages:
        if out and message["role"] == out[-1]["role"] == "user":
            out[-1] = {**out[-1], "content": out[-1]["content"] + "\n\n" + message["content"]}
        else:
            out.append(message)
    return out


def results_by_call(messages: Messages, context: Context) -> Messages:
    """Results in the order of their calls, where all of them carry the id of one."""
    out: Messages = []
    order: dict[str, int] = {}
    start = 0
    while start < len(messages):
        message = messages[start]
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or ()
            order = {call["id"]: at for at, call in enumerate(calls) if call.get("id") is not None}
        end = start
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        if end == start:
            out.append(message)
            start += 1
            continue
        results = messages[start:end]
        if all(result.get("tool_call_id") in order for result in results):
            results = sorted(results, key=lambda result: order[result["tool_call_id"]])
        out += results
        start = end
    return out


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["role"] == other["role"] and one["role"] in ("user", "system")
