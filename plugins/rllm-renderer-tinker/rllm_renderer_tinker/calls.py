"""Attempts at tool calls in a completion: every one, in order, with its text and its status.

Upstream returns calls that parsed and calls that didn't in two lists, without the text of the former, and in older versions
nothing of a call that was never closed. The blocks of the text say what there was and in which order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.contract.arguments import Schema
from rllm_renderer_core.types import ToolCall, ToolCallStatus

BLOCKS = (
    ("<tool_call>", "</tool_call>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    ("<｜DSML｜invoke", "</｜DSML｜invoke>"),
    ("<｜DSML｜ invoke", "</｜DSML｜ invoke>"),
    ("<invoke name=", "</invoke>"),
    ("<|tool_call>", "<tool_call|>"),
)
"""What opens and closes one call, by format; a completion is of the format whose opening it has."""

SECTIONS = (
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    ("<｜DSML｜ calls>", "</｜DSML｜ calls>"),
    ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
)
"""What opens and closes all calls of a turn, where the format has that."""

HARMONY = re.compile(
    r"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)? to=functions\..*?(?=<\|call\|>|<\|start\|>|\Z)", re.DOTALL
)

MISTRAL = re.compile(r"\[TOOL_CALLS\].*?(?=\[TOOL_CALLS\]|\Z)", re.DOTALL)

_PARAMETERS = (
    re.compile(r"<parameter=(?P<name>[^>\n]+)>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL),
    re.compile(r'<parameter name="(?P<name>[^"\n]+)">(?P<value>.*?)</parameter>', re.DOTALL),
    re.compile(r"<arg_key>(?P<name>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL),
)
_ARGUMENTS = re.compile(r'"arguments"\s*:\s*')


@dataclass(frozen=True)
class Block:
    """One attempt: where it starts in the text, its text, and whether it was closed."""

    start: int
    text: str
    closed: bool


def blocks_in(text: str) -> list[Block]:
    """The attempts in a text, in order."""
    for opening, closing in BLOCKS:
        if opening in text:
            return _between(text, opening, closing)
    if "[TOOL_CALLS]" in text:
        return [Block(m.start(), m.group(), closed=m.group().rstrip().endswith("}")) for m in MISTRAL.finditer(text)]
    if "to=functions." in text:
        return [Block(m.start(), m.group(), closed="<|message|>" in m.group()) for m in HARMONY.finditer(text)]
    return []


def _between(text: str, opening: str, closing: str) -> list[Block]:
    found = []
    at = text.find(opening)
    while at >= 0:
        end = text.find(closing, at)
        if end < 0:
            found.append(Block(at, text[at:], closed=False))
            break
        end += len(closing)
        found.append(Block(at, text[at:end], closed=True))
        at = text.find(opening, end)
    return found


def starts_of_calls(text: str) -> int:
    """Where the visible text ends: at the first unclosed block or section, else the length of the text."""
    starts = [block.start for block in blocks_in(text) if not block.closed]
    starts += [text.index(opening) for opening, closing in SECTIONS if opening in text and closing not in text]
    return min(starts, default=len(text))


def attempts(
    text: str, parsed: Sequence[Any], unparsed: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None
) -> list[ToolCall]:
    """Every attempt in order.

    Args:
        text: The visible part of the completion, calls included.
        parsed: Upstream's ``ToolCall`` objects.
        unparsed: Upstream's ``UnparsedToolCall`` objects.
        tools: Declarations in normal form, by which argument types and names are checked.
    """
    good, bad = list(parsed), list(unparsed)
    out: list[ToolCall] = []
    blocks = blocks_in(text)
    for block in blocks:
        match = next((each for each in bad if _same(each.raw_text, block.text)), None)
        if match is not None:
            bad.remove(match)
            out.append(_unparsed(block.text, str(match.error), closed=block.closed))
        elif block.closed and good:
            out.append(_parsed(good.pop(0), block.text, tools))
        else:
            out.append(_unparsed(block.text, "", closed=block.closed))
    out += [_parsed(call, "", tools) for call in good]
    return out + [_unparsed(each.raw_text, str(each.error), closed=True) for each in bad if not _covered(each.raw_text, blocks)]


def _same(one: str, other: str) -> bool:
    return bool(one.strip()) and (one.strip() in other or other.strip() in one)


def _covered(raw: str, blocks: Sequence[Block]) -> bool:
    return any(_same(raw, block.text) for block in blocks)


def _unparsed(raw: str, error: str, *, closed: bool) -> ToolCall:
    if not closed or error.startswith("unterminated"):
        status = ToolCallStatus.UNCLOSED_BLOCK
    elif error.startswith("Invalid JSON"):
        status = ToolCallStatus.INVALID_JSON
    elif "name" in error and error.startswith(("Missing", "Empty")):
        status = ToolCallStatus.MISSING_NAME
    else:
        status = ToolCallStatus.MALFORMED_STRUCTURE
    return ToolCall("", raw=raw, status=status)


def _parsed(call: Any, raw: str, tools: Sequence[Mapping[str, Any]] | None) -> ToolCall:
    name, arguments = str(call.function.name), str(call.function.arguments)
    status = ToolCallStatus.OK
    declared = {tool["function"]["name"]: tool["function"] for tool in tools or ()}
    if tools and name not in declared:
        status = ToolCallStatus.UNKNOWN_TOOL
    given = _named_values(raw)
    if given is not None:
        values = json.loads(arguments)
        properties = (declared.get(name, {}).get("parameters") or {}).get("properties") or {}
        schema = Schema.of_tool(tools, name)
        for key, text in given:
            if key in properties:
                values[key], fits = schema.member(key).typed(text)
                status = status if fits or status is not ToolCallStatus.OK else ToolCallStatus.INVALID_ARGUMENT
        arguments = json.dumps(values, ensure_ascii=False)
    else:
        arguments = _verbatim(raw, arguments)
    return ToolCall(name, arguments, id=call.id, raw=raw, status=status)


def _named_values(raw: str) -> list[tuple[str, str]] | None:
    """Names and texts of the arguments of an XML call, ``None`` where the format carries JSON."""
    for pattern in _PARAMETERS:
        found = [(match["name"].strip(), match["value"]) for match in pattern.finditer(raw)]
        if found:
            return found
    return None


def _verbatim(raw: str, arguments: str) -> str:
    """The arguments' JSON as the model wrote it, where it is part of the block; upstream prints it anew."""
    if arguments in raw:
        return arguments
    match = _ARGUMENTS.search(raw)
    if match is None:
        return arguments
    try:
        value, end = json.JSONDecoder().raw_decode(raw, match.end())
        return raw[match.end() : end] if value == json.loads(arguments) else arguments
    except (ValueError, RecursionError):
        return arguments
