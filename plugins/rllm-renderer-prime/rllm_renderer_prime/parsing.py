"""Upstream's parse results as the core's: every attempt at a call with its status, and how the completion ended."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.normal_form.arguments import Schema
from rllm_renderer_core.normal_form.ids import last_of
from rllm_renderer_core.normal_form.tokenizer import reasoning_ids, special_ids
from rllm_renderer_core.renderer.parsing import BROKEN
from rllm_renderer_core.types import ParsedResponse, Termination, ToolCall, ToolCallStatus

from .families import Variant, family_of

Ids = list[int]

WRITTEN = (
    r"<parameter={key}>\n?(.*?)\n?</parameter>",
    r'<parameter name="{key}">(.*?)</parameter>',
    r"<arg_key>\s*{key}\s*</arg_key>\s*<arg_value>(.*?)</arg_value>",
)
"""How Qwen3.5 and Nemotron, MiniMax, and GLM, Laguna and Hy3 write one argument.

The core's check finds a value that upstream stripped, and the learned parser then reads the call; but ``parse_check="off"`` has
neither, and code that ends with a line break is too common to be parsed twice.
"""


class Parser:
    """Parses completions of one upstream renderer."""

    def __init__(self, upstream: Any, tokenizer: Any, variant: Variant, stops: frozenset[int]) -> None:
        def encode(text: str) -> Ids:
            return list(tokenizer.encode(text, add_special_tokens=False))

        self._upstream = upstream
        self._tokenizer = tokenizer
        self._text_arguments = family_of(variant.family).text_arguments
        self._stops = stops
        self._pair = reasoning_ids(tokenizer)
        self._marks = special_ids(tokenizer).union(self._pair)
        self._closing: Ids = []
        if family_of(variant.family).calls_end_reasoning and variant.thinking is not False:
            self._closing = encode("</think>")

    def parse(self, ids: Ids, tools: Sequence[Any] | None, prompt: Ids | None) -> ParsedResponse:
        """Never raises: what upstream can't parse is malformed."""
        at = next((index for index, token in enumerate(ids) if token in self._stops), None)
        try:
            declared = untyped(tools) if self._text_arguments else tools
            parsed = self._upstream.parse_response(ids, tools=declared, prompt_ids=prompt)
            unclosed = parsed.reasoning_content and set(self._pair).isdisjoint(ids)  # a call ended it, for upstream
            if (parsed.reasoning_complete is False or unclosed) and self._closed_by(prompt):
                # Upstream goes by the end of its own prompt, not by what stands behind that.
                parsed = self._upstream.parse_response([*self._pair[1:], *ids], tools=declared, prompt_ids=prompt)
                parsed.reasoning_content = parsed.reasoning_content or None
            close = self._close_behind_a_call(ids, parsed)
            if close:
                # The close is explicit: what was written before it is a sketch, and no call.
                parsed = self._upstream.parse_response(ids[close:], tools=declared, prompt_ids=prompt)
                parsed.reasoning_content = self._decode(ids[:close]).removeprefix("<think>").strip()
            calls = [self._call(call, tools) for call in parsed.tool_calls]
            if at is None and calls and calls[-1].status is ToolCallStatus.INVALID_JSON:
                # Upstream looks at the JSON first: a call that is cut off is one that isn't closed.
                span = parsed.tool_calls[-1].token_span
                if span is not None and span[1] >= len(ids):
                    calls[-1].status = ToolCallStatus.UNCLOSED_BLOCK
        except Exception:  # ids outside the vocabulary, JSON nested too deep: upstream promises nothing
            return ParsedResponse(termination=Termination.MALFORMED)
        complete = parsed.reasoning_complete is not False
        if at is None:
            termination = Termination.TRUNCATED
        elif at < len(ids) - 1 or not complete or any(call.status in BROKEN for call in calls):
            termination = Termination.MALFORMED
        else:
            termination = Termination.STOP
        return ParsedResponse(parsed.content or "", parsed.reasoning_content, calls, termination, complete)

    def _closed_by(self, prompt: Ids | None) -> bool:
        """Whether a prompt closes the reasoning last: it may go on with text, or with the beginning of a call."""
        return self._pair[1:] == (last_of(self._marks, prompt or ()),)

    def _close_behind_a_call(self, ids: Ids, parsed: Any) -> int:
        """Where the reasoning closes, if upstream took something inside it for a call; else 0."""
        if not self._closing or not parsed.tool_calls or self._closing[0] not in ids:
            return 0
        at, span = ids.index(self._closing[0]), parsed.tool_calls[0].token_span
        return at if span is not None and span[0] < at else 0

    def _decode(self, ids: Ids) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def _call(self, call: Any, tools: Sequence[Any] | None) -> ToolCall:
        status = ToolCallStatus(str(call.status.value))
        name = call.name if isinstance(call.name, str) else ""
        arguments = call.arguments
        if isinstance(arguments, Mapping) and self._text_arguments:
            arguments, fits = typed_arguments(name, arguments, tools, call.raw)
            # Upstream says "invalid JSON" of each text that no declaration allows, and of every text where there is none.
            if status in (ToolCallStatus.OK, ToolCallStatus.INVALID_JSON):
                status = ToolCallStatus.OK if fits else ToolCallStatus.INVALID_ARGUMENT
        elif isinstance(arguments, Mapping):
            arguments = json_text_in(call.raw, arguments) or arguments
        elif status is ToolCallStatus.OK:
            arguments, status = _not_a_mapping(arguments)
        elif arguments is None:
            arguments = call.raw
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not name and status is ToolCallStatus.OK:
            status = ToolCallStatus.MISSING_NAME
        return ToolCall(name, arguments, id=call.id if isinstance(call.id, str) else None, raw=call.raw or "", status=status)


def _not_a_mapping(arguments: Any) -> tuple[Any, ToolCallStatus]:
    """Arguments that upstream took, and that aren't an object: none at all, JSON in a string, or something else."""
    if arguments is None:
        return {}, ToolCallStatus.OK
    if isinstance(arguments, str):
        try:
            if isinstance(json.loads(arguments), dict):
                return arguments, ToolCallStatus.OK
        except ValueError:
            pass
        return arguments, ToolCallStatus.MALFORMED_STRUCTURE
    return json.dumps(arguments, ensure_ascii=False), ToolCallStatus.MALFORMED_STRUCTURE


def untyped(tools: Sequence[Any] | None) -> list[Any] | None:
    """The tools with every parameter declared as text, so that upstream hands each argument over as it was written."""
    if tools is None:
        return None
    out = []
    for tool in tools:
        function = tool["function"]
        names = Schema.of_tool([tool], function["name"]).property_names()
        if names:
            text = {key: {"type": "string"} for key in names}
            function = {**function, "parameters": {"type": "object", "properties": text}}
        out.append({**tool, "function": function})
    return out


def typed_arguments(
    name: str, arguments: Mapping[str, Any], tools: Sequence[Any] | None, raw: str
) -> tuple[dict[str, Any], bool]:
    """Arguments with the types that the tool declares, and whether all of them have it.

    Text that doesn't fit its declaration stays text. What isn't declared is what upstream made of it: JSON, else text,
    as are numbers that JSON doesn't have.
    """
    schema = Schema.of_tool(tools, name)
    declared = schema.property_names()
    out: dict[str, Any] = {}
    fits = True
    for key, value in arguments.items():
        if key in declared and isinstance(value, str):
            value, one = schema.member(key).typed(_unstripped(key, value, raw))
            fits = fits and one
        elif not _is_json(value):  # 1e400, which Python's own reader makes an infinity of
            written = (match[1] for pattern in WRITTEN for match in re.finditer(_of(pattern, key), raw, re.DOTALL))
            value, fits = next(written, json.dumps(value)), False
        out[key] = value
    return out, fits


def _of(pattern: str, key: str) -> str:
    return pattern.format(key=re.escape(key))


def _is_json(value: Any) -> bool:
    """Whether JSON has the value: it has no NaN and no infinity."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _unstripped(key: str, value: str, raw: str) -> str:
    """The argument with the white space at its edges, which upstream strips and indented code needs."""
    for pattern in WRITTEN:
        for found in re.finditer(_of(pattern, key), raw, re.DOTALL):
            if found[1].strip() == value.strip():
                return found[1]
    return value


def json_text_in(raw: str, value: Mapping[str, Any]) -> str | None:
    """The part of ``raw`` that is the JSON of ``value``, byte for byte; ``None`` where none is.

    A call that goes back into the history as the model wrote it keeps its spaces, its escapes and its numbers.
    """
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(4):  # it is the first or second object; deeper ones would be a long search for nothing
        at = raw.find("{", at + 1)
        if at < 0:
            return None
        try:
            found, end = decoder.raw_decode(raw, at)
        except (ValueError, RecursionError):
            continue
        if found == value:
            return raw[at:end]
    return None
