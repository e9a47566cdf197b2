"""Rows about what upstream renders otherwise than the template, and what no rewriting corrects: refused, with the fix."""

from __future__ import annotations

from rllm_renderer_core.errors import MessageError, UnsupportedToolsError

from .context import Context, Messages
from .texts import is_query


def refuse_inline_reasoning(messages: Messages, context: Context) -> Messages:
    """Refuses reasoning in an assistant's text: templates cut it out, upstream prints it as it is."""
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, str) and ("<think>" in content or "</think>" in content):
            raise MessageError(
                "backend 'tml' can't render reasoning inside an assistant's text as the template does",
                fix="pass it as reasoning_content, or choose another backend=",
            )
    return messages


def refuse_names(messages: Messages, context: Context) -> Messages:
    """Refuses a name that isn't the message's role, but for results: the template writes it for the role, upstream leaves it
    out."""
    for index, message in enumerate(messages):
        if message["role"] != "tool" and message.get("name") not in (None, "", message["role"]):
            raise MessageError(
                f"message {index} ({message['role']}) has a name, which the format shows and upstream leaves out",
                fix="put it into the text, or choose another backend=",
                index=index,
            )
    return messages


def refuse_without_user(messages: Messages, context: Context) -> Messages:
    """Refuses an assistant's turn that no user opened: the template prints no opener there, upstream one."""
    for message in messages:
        if message["role"] == "user":
            break
        if message["role"] == "assistant":
            raise MessageError(
                "backend 'tml' can't render an assistant's turn before the first user's as the template does",
                fix="begin with a user's message, or choose another backend=",
            )
    return messages


def refuse_without_query(messages: Messages, context: Context) -> Messages:
    """Refuses a conversation in which no user asks anything: so does the template."""
    if any(is_query(message) for message in messages):
        return messages
    raise MessageError(
        "backend 'tml' can't render a conversation without a user's text, which the model's template refuses",
        fix="add a user's message",
    )


def refuse_results(messages: Messages, context: Context) -> Messages:
    """Raises ``UnsupportedToolsError`` for results: upstream opens a turn behind them, the template doesn't."""
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            raise UnsupportedToolsError(
                f"message {index} (tool): what follows a result isn't rendered as the template does",
                fix="choose another backend=",
                index=index,
            )
    return messages
