"""Messages to text, branch by branch as ``chat_template.jinja`` of MiniMaxAI/MiniMax-M3 has them.

The unit is the chunk: a turn, or one result of a turn of several. Where one ends, the tokenizer starts a new token anyway (a
reserved token follows, or the ``<`` after a newline), so chunks give the same ids one by one as the template's text in one.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_core.errors import MessageError
from rllm_renderer_core.normal_form.messages import refuse_media
from rllm_renderer_core.plugin import in_probe

from .markers import BEGIN, CALLS_CLOSE, CALLS_OPEN, CLOSE, NS, THINK_CLOSE, THINK_OPEN, TURN
from .options import Options

logger = logging.getLogger(__name__)

OPENER = f"{TURN}ai\n"

# What follows is the template's own text, which the ids must reproduce.
DEFAULT_ROOT = (
    "Your model version is MiniMax-M3, developed by MiniMax. Knowledge cutoff: January 2026. Founded in early 2022, MiniMax is "
    "a global AI foundation model company committed to advancing the frontiers of AI towards AGI."
)
DEFAULT_DEVELOPER = "You are a helpful assistant."
_MODES = {
    "enabled": "enabled. You MUST think step by step before every response, including after receiving function/tool results.",
    "disabled": "disabled. Do not output any thinking process.",
    "adaptive": "adaptive. You are encouraged to think for complex decision-making, multi-step reasoning, or when analyzing "
    "function/tool results.",
}
_TOOLS_HEAD = (
    "\n\n# Tools\nYou may call one or more tools to assist with the user query.\n"
    "Here are the tools available in JSONSchema format:\n\n<tools>\n"
)


def _element(name: str, inner: str) -> str:
    return f"{NS}<{name}>{inner}{NS}</{name}>"


_TOOLS_TAIL = (
    f"</tools>\n\nTo call tools, wrap all invocations in a single {NS}{CALLS_OPEN}{NS}{CALLS_CLOSE} block. Parameter values "
    "containing nested objects or arrays are recursively expanded into XML elements. Example:\n\n"
    f'{NS}{CALLS_OPEN}\n{NS}<invoke name="tool-name-1">'
    + _element("param-1", "value-1")
    + _element("param-2", _element("item", _element("key-a", "val-a") + _element("key-b", "val-b")))
    + f'{NS}</invoke>\n{NS}<invoke name="tool-name-2">'
    + _element("param-1", "value-1")
    + f"{NS}</invoke>\n{NS}{CALLS_CLOSE}"
)


@dataclass
class Chunk:
    """Text of one turn or result, in the parts that the format and the message wrote.

    Attributes:
        index: The message that it belongs to, -1 for none.
        parts: Its text; to be joined.
        texts: Positions in ``parts`` of message text.
        opener: For an assistant turn: how much of its text the prompt held before sampling began.
        head: Whether it is part of the head that all conversations of one environment share.
    """

    index: int
    parts: list[str] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)
    opener: str | None = None
    head: bool = False

    def form(self, text: str) -> None:
        self.parts.append(text)

    def text(self, text: str) -> None:
        self.texts.append(len(self.parts))
        self.parts.append(text)


def next_opener(options: Options) -> str:
    """What opens the next assistant turn, with the think tag that the mode fixes in advance."""
    return OPENER + {"enabled": THINK_OPEN, "disabled": THINK_CLOSE, "adaptive": ""}[options.thinking_mode]


def render_chunks(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, options: Options) -> Iterator[Chunk]:
    """All turns of a conversation in normal form.

    Raises:
        MessageError: For a role that the template doesn't have, and a result without a call before it.
        UnsupportedContentError: For media.
    """
    refuse_media(messages, "minimax-m3")
    root = developer = None
    at = 0
    if messages and messages[0]["role"] == "root":
        root, at = 0, 1
    if len(messages) > at and messages[at]["role"] in ("system", "developer"):
        developer, at = at, at + 1
    yield _root(root, messages, options)
    yield _developer(developer, messages, tools, options)
    yield from conversation_chunks(messages, at, options, called=False)


def conversation_chunks(
    messages: Sequence[Mapping[str, Any]], start: int, options: Options, *, called: bool
) -> Iterator[Chunk]:
    """The turns from ``messages[start]`` on. ``called``: the assistant turn before them made a call."""
    for index in range(start, len(messages)):
        message = messages[index]
        role = message["role"]
        if role == "user":
            chunk = Chunk(index)
            chunk.form(f"{TURN}user\n")
            chunk.text(message["content"])
            chunk.form(f"{CLOSE}\n")
            yield chunk
        elif role == "assistant":
            called = bool(message.get("tool_calls"))
            yield _assistant(index, message, options)
        elif role == "tool":
            if not called:
                raise MessageError(
                    f"message {index} is a tool result, but the assistant turn before it made no call",
                    fix="put tool_calls on the assistant message",
                    index=index,
                )
            first = index == start or messages[index - 1]["role"] != "tool"
            last = index == len(messages) - 1 or messages[index + 1]["role"] != "tool"
            chunk = Chunk(index)
            chunk.form(f"{TURN}tool\n<response>" if first else "<response>")
            chunk.text(message["content"])
            # The newline in front of the next result is one token with this result's ">", so it is written here.
            chunk.form(f"</response>{CLOSE}\n" if last else "</response>\n")
            yield chunk
        elif role in ("root", "system", "developer"):
            _warn_left_out(role)
        else:
            raise MessageError(
                f"message {index} has role {role!r}, which MiniMax-M3's template would leave out",
                fix="use root, system, developer, user, assistant or tool",
                index=index,
            )


def _warn_left_out(role: str) -> None:
    """Said once, as a conversation is rendered many times, and not of a probe."""
    if not in_probe.get():
        _say_left_out(role)


@functools.cache
def _say_left_out(role: str) -> None:
    logger.warning("MiniMax-M3's template leaves out a %s message that isn't at the head of the conversation", role)


def _root(index: int | None, messages: Sequence[Mapping[str, Any]], options: Options) -> Chunk:
    chunk = Chunk(-1 if index is None else index, head=True)
    chunk.form(f"{BEGIN}{TURN}system\n")
    given = "" if index is None else messages[index]["content"]
    if given:
        chunk.text(given)
    else:
        chunk.form(DEFAULT_ROOT)
    chunk.form(
        "\n\n<thinking_instructions>\n"
        "You have a thinking capability that allows you to reason step by step before responding. When thinking is enabled, "
        f"wrap your reasoning in {THINK_OPEN}{THINK_CLOSE} tags before your response. When thinking is disabled, begin your "
        f"response directly after the {THINK_CLOSE} prefix. When thinking is adaptive, decide on your own whether to think "
        f"for the current turn.\nCurrent thinking mode: {_MODES[options.thinking_mode]}\n</thinking_instructions>{CLOSE}\n"
    )
    return chunk


def _developer(
    index: int | None, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, options: Options
) -> Chunk:
    chunk = Chunk(-1 if index is None else index, head=True)
    chunk.form(f"{TURN}developer\n")
    given = "" if index is None else messages[index]["content"]
    identity = DEFAULT_DEVELOPER if options.model_identity is None else options.model_identity
    chunk.text(given or identity)
    if tools:
        chunk.form(_TOOLS_HEAD)
        for tool in tools:
            chunk.form("<tool>")
            chunk.text(json.dumps(tool["function"], ensure_ascii=False))
            chunk.form("</tool>\n")
        chunk.form(_TOOLS_TAIL)
    chunk.form(f"{CLOSE}\n")
    return chunk


def _assistant(index: int, message: Mapping[str, Any], options: Options) -> Chunk:
    chunk = Chunk(index)
    chunk.form(OPENER)
    content, reasoning = message["content"], message.get("reasoning_content")
    if reasoning is None and options.marker_text == "template" and THINK_CLOSE in content:
        before, _, _ = content.partition(THINK_CLOSE)
        reasoning = before.strip("\n").rpartition(THINK_OPEN)[2].strip("\n")
        content = content.rpartition(THINK_CLOSE)[2].strip("\n")
    if reasoning:
        chunk.form(THINK_OPEN)
        chunk.text(reasoning)
    chunk.form(THINK_CLOSE)
    opener = next_opener(options)
    chunk.opener = opener if "".join(chunk.parts[:2]).startswith(opener) else OPENER
    chunk.text(content)
    calls = message.get("tool_calls")
    if calls:
        chunk.form(f"{NS}{CALLS_OPEN}\n")
        for call in calls:
            chunk.form(f'{NS}<invoke name="')
            chunk.text(call["function"]["name"])
            chunk.form('">')
            _value(chunk, json.loads(call["function"]["arguments"]))
            chunk.form(f"{NS}</invoke>\n")
        chunk.form(f"{NS}{CALLS_CLOSE}")
    chunk.form(f"{CLOSE}\n")
    return chunk


def _value(chunk: Chunk, value: Any) -> None:
    """An argument as nested elements. A key whose value is null is left out; a null in a list is an empty item."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if inner is not None:
                _tagged(chunk, key, inner)
    elif isinstance(value, list):
        for inner in value:
            _tagged(chunk, "item", inner)
    else:
        chunk.text(scalar_text(value))


def _tagged(chunk: Chunk, key: str, value: Any) -> None:
    chunk.form(f"{NS}<")
    chunk.text(key)
    chunk.form(">")
    _value(chunk, value)
    chunk.form(f"{NS}</")
    chunk.text(key)
    chunk.form(">")


def scalar_text(value: Any) -> str:
    """A value without structure as the format writes it: text as it is, ``true``, ``1.5``, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
