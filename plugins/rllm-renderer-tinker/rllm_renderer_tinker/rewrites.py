"""What rows of the table are made of: rewrites of messages in normal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rllm_renderer_core.errors import MessageError

from . import turns

Messages = list[dict[str, Any]]
Rewrite = Callable[[Messages], Messages]

INDEX = "_index"
"""Key that carries a message's position through upstream, which copies messages and puts others before them; -1 for those that
declare tools where no system text was given."""

MERGED = "_merged"
"""Key of a message that stands for several: how many."""

HARMONY_SYSTEM = "_gptoss_internal_system"
"""Upstream's role of a system message that isn't the user's."""


def glue_results(separator: str) -> Rewrite:
    """Consecutive tool results as one message, their contents joined by what the template puts between them."""

    def rewrite(messages: Messages) -> Messages:
        out: Messages = []
        for message in messages:
            last = out[-1] if out else None
            if last is not None and message["role"] == last["role"] == "tool" and _is_text(message) and _is_text(last):
                merged = last.get(MERGED, 1) + 1
                out[-1] = {**last, "content": last["content"] + separator + message["content"], MERGED: merged}
            else:
                out.append(message)
        return out

    return rewrite


def _of_texts(change: Callable[[Any], Any], *roles: str) -> Rewrite:
    """``change`` of each text of these roles."""

    def rewrite(messages: Messages) -> Messages:
        return [{**m, "content": change(m["content"])} if m["role"] in roles and _is_text(m) else m for m in messages]

    return rewrite


def trim(*roles: str) -> Rewrite:
    """Text of these roles without white space at its edges."""
    return _of_texts(lambda text: text.strip(), *roles)


def untrimmed(*roles: str) -> Rewrite:
    """Text of these roles as it is."""
    return _of_texts(Untrimmed, *roles)


def as_parts(*roles: str) -> Rewrite:
    """Text of these roles as a list of one part."""
    return _of_texts(turns.parts, *roles)


def think_as_text() -> Rewrite:
    """Assistant texts that spell ``</think>`` as parts: upstream takes it for reasoning in plain text, the format for text."""
    return _of_texts(lambda text: turns.parts(text) if "</think>" in text else text, "assistant")


def harmony_braces() -> Rewrite:
    """Declarations with their brace on the first line."""
    return _of_texts(lambda text: text.replace("(_:\n{", "(_: {"), "developer")


def spoken(turn: turns.Turn, *, reasoning: bool = False) -> Rewrite:
    """Assistant messages as the finished text of their turn, with their calls; with ``reasoning`` upstream writes its
    block, without white space at the edges."""

    def rewrite(messages: Messages) -> Messages:
        query = _last_query(messages)
        out = []
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and _is_text(message):
                text = Untrimmed(turn(message, index > query, index == len(messages) - 1))
                drop = ("tool_calls",) if reasoning else ("tool_calls", "reasoning_content")
                message = {**{key: value for key, value in message.items() if key not in drop}, "content": text}
                if "reasoning_content" in message:
                    message["reasoning_content"] = message["reasoning_content"].strip()
            out.append(message)
        return out

    return rewrite


def nemotron_turns(*, preserved: bool) -> Rewrite:
    """Assistant messages as Nemotron's template writes them; ``preserved`` keeps all reasoning."""

    def rewrite(messages: Messages) -> Messages:
        query = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=-1)
        out = []
        for index, message in enumerate(messages):
            ours = message["role"] == "assistant" and _is_text(message)
            out.append(turns.nemotron3(message, preserved or index > query) if ours else message)
        return out

    return rewrite


def _last_query(messages: Messages) -> int:
    """Index of the last user message that isn't a tool result in disguise, as Qwen's templates look for it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] == "user":
            text = message["content"].strip() if _is_text(message) else ""
            if not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):
                return index
    return len(messages)


def collect_systems(messages: Messages) -> Messages:
    """All system texts as the first message, in their order."""
    systems = [m for m in messages if m["role"] == "system" and _is_text(m)]
    if not systems or messages[0] is systems[-1]:
        return messages
    first = {**systems[0], "content": "\n\n".join(m["content"] for m in systems), MERGED: len(systems)}
    return [first, *(m for m in messages if m["role"] != "system" or not _is_text(m))]


def only_roles(*more: str) -> Rewrite:
    """Refuses messages of other roles than ``system``, ``user``, ``assistant``, ``tool`` and ``more`` with a ``MessageError``:
    upstream writes any word as a role, and the template has none of that name."""
    known = ("system", "user", "assistant", "tool", *more)

    def rewrite(messages: Messages) -> Messages:
        for message in messages:
            if message["role"] not in known:
                index = message.get(INDEX)
                raise MessageError(
                    f"message {index} has the role {message['role']!r}, which the format doesn't have",
                    fix=f"give it one of {', '.join(known)}",
                    index=index,
                )
        return messages

    return rewrite


def refuse_names(messages: Messages) -> Messages:
    """Refuses a message with a name that isn't its role, but for results, with a ``MessageError``: the template writes the name
    where upstream writes the role."""
    for message in messages:
        if message["role"] != "tool" and message.get("name") not in (None, "", message["role"]):
            index = message.get(INDEX)
            raise MessageError(
                f"message {index} ({message['role']}) has a name, which the format shows and upstream leaves out",
                fix="put it into the text, or leave it out",
                index=index,
            )
    return messages


def needs_query(messages: Messages) -> Messages:
    """Refuses a conversation without a user's message, as the template does.

    Raises:
        MessageError: There is none.
    """
    if messages and _last_query(messages) == len(messages):
        raise MessageError("there is no message of a user's, and the format needs one", fix="add a user message")
    return messages


def inline_reasoning(opening: str = "<think>", closing: str = "</think>", *, both_edges: bool = False) -> Rewrite:
    """Reasoning that an assistant's text has in it as the message's reasoning, which is how the template reads it.

    Args:
        opening: The marker's text.
        closing: The marker's text.
        both_edges: Whether newlines go at both edges of the rest of the text, and not at its start alone.
    """

    def rewrite(messages: Messages) -> Messages:
        out = []
        for message in messages:
            inline = message["role"] == "assistant" and _is_text(message) and closing in message["content"]
            if inline and "reasoning_content" not in message:
                before, *_, rest = message["content"].split(closing)
                reasoning = before.strip("\n").split(opening)[-1].strip("\n")
                rest = rest.strip("\n") if both_edges else rest.lstrip("\n")
                message = {**message, "content": rest, "reasoning_content": reasoning}
            out.append(message)
        return out

    return rewrite


def _is_text(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], str)


class Blank(str):
    """Nothing, but given: upstream warns of a missing id, and prints nothing in its place."""

    def __bool__(self) -> bool:
        return True


def closing_empty(render_message: Callable[..., Any]) -> Callable[..., Any]:
    """Upstream's ``render_message``, which closes an empty answer too: it takes one for the turn that is to be sampled, which
    has no place in the conversation."""

    def closing(message: dict[str, Any], ctx: Any) -> Any:
        out = render_message(message, ctx)
        if message["role"] != "assistant" or INDEX not in message or message["content"] or message.get("tool_calls"):
            return out
        chunk = type(out.output[-1])
        close = render_message.__self__._end_message_token  # type: ignore[attr-defined]  # noqa: SLF001 - no public name
        last = chunk(tokens=[*out.output[-1].tokens, close])
        return type(out)(header=out.header, output=[*out.output[:-1], last])

    return closing


class Untrimmed(str):
    """Text that keeps its edges where upstream trims it and appends to it, but takes no list of parts."""

    def strip(self, chars: str | None = None, /) -> str:
        return self

    def __add__(self, other: str, /) -> str:
        return Untrimmed(str(self) + other)


def name_results(name: str, **missing: str) -> Rewrite:
    """The format's neutral name for results without one: what upstream falls back to, with a warning for each message."""

    def rewrite(messages: Messages) -> Messages:
        return [{"name": name, **missing, **m} if m["role"] == "tool" else m for m in messages]

    return rewrite


def _without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def drop_reasoning(messages: Messages) -> Messages:
    """No reasoning in any message."""
    return [_without_reasoning(m) for m in messages]


def drop_answered_reasoning(messages: Messages) -> Messages:
    """Reasoning goes once a final answer follows it, in its own turn or later; the last message keeps its own."""
    finals = [i for i, m in enumerate(messages) if m["role"] == "assistant" and not m.get("tool_calls")]
    answered = max(finals, default=-1) if finals[-1:] != [len(messages) - 1] else len(messages) - 1
    return [
        _without_reasoning(m) if m["role"] == "assistant" and index <= answered and index < len(messages) - 1 else m
        for index, m in enumerate(messages)
    ]


def leading_developer(messages: Messages) -> Messages:
    """A developer message at the start as a system message."""
    return [{**m, "role": "system"} if i == 0 and m["role"] == "developer" else m for i, m in enumerate(messages)]


def without_harmony_system(messages: Messages) -> Messages:
    """Without the system message that upstream puts before the developer's when tools are declared."""
    return [m for m in messages if m["role"] != HARMONY_SYSTEM]


def only_given_system(messages: Messages) -> Messages:
    """Without the system text that upstream puts beside declared tools."""
    return [m for m in messages if not (m["role"] == "system" and m.get(INDEX) == -1)]
