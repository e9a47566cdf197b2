"""Arguments that a format writes as bare text, read by the types that the tool declares."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rllm_renderer_core.normal_form.arguments import Schema

WRITTEN = (
    r"<parameter={key}>\n?(.*?)\n?</parameter>",
    r'<parameter name="{key}">(.*?)</parameter>',
    r"<arg_key>\s*{key}\s*</arg_key>\s*<arg_value>(.*?)</arg_value>",
)
"""How Qwen3.5 and Nemotron, MiniMax, and GLM, Laguna and Hy3 write one argument.

The core's check finds a value that upstream stripped, and the learned parser then reads the call; but ``parse_check="off"`` has
neither, and code that ends with a line break is too common to be parsed twice.
"""


def untyped(tools: Sequence[Any] | None) -> list[Any] | None:
    """The tools with every parameter declared as text, so that upstream hands each argument over as it was written."""
    if tools is None:
        return None
    out = []
    for tool in tools:
        function = tool["function"]
        properties = _properties(function)
        if properties:
            text = {key: {"type": "string"} for key in properties}
            function = {**function, "parameters": {**function["parameters"], "properties": text}}
        out.append({**tool, "function": function})
    return out


def typed_arguments(
    name: str, arguments: Mapping[str, Any], tools: Sequence[Any] | None, raw: str
) -> tuple[dict[str, Any], bool]:
    """Arguments with the types that the tool declares, and whether all of them have it.

    Text that doesn't fit its declaration stays text. What isn't declared is what upstream made of it: JSON, else text.
    """
    declared: Mapping[str, Any] = {}
    for tool in tools or ():
        if tool["function"]["name"] == name:
            declared = _properties(tool["function"])
    schema = Schema.of_tool(tools, name)
    out: dict[str, Any] = {}
    fits = True
    for key, value in arguments.items():
        if key in declared and isinstance(value, str):
            value, one = schema.member(key).typed(_unstripped(key, value, raw))
            fits = fits and one
        out[key] = value
    return out, fits


def _unstripped(key: str, value: str, raw: str) -> str:
    """The argument with the white space at its edges, which upstream strips and indented code needs."""
    for pattern in WRITTEN:
        for found in re.finditer(pattern.format(key=re.escape(key)), raw, re.DOTALL):
            if found[1].strip() == value.strip():
                return found[1]
    return value


def _properties(function: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


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
