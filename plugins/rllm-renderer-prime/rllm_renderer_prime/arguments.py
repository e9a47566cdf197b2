"""Arguments that a format writes as bare text, read by the types that the tool declares."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

WRITTEN = (
    r"<parameter={key}>\n?(.*?)\n?</parameter>",
    r'<parameter name="{key}">(.*?)</parameter>',
    r"<arg_key>\s*{key}\s*</arg_key>\s*<arg_value>(.*?)</arg_value>",
)
"""How Qwen3.5 and Nemotron, MiniMax, and GLM, Laguna and Hy3 write one argument."""


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
    out: dict[str, Any] = {}
    fits = True
    for key, value in arguments.items():
        if key in declared and isinstance(value, str):
            value, one = read(_unstripped(key, value, raw), declared[key])
            fits = fits and one
        out[key] = value
    return out, fits


def read(text: str, schema: Any) -> tuple[Any, bool]:
    """The value of ``text`` under a JSON schema, and whether it has one of the declared types.

    Text is text where a string is declared, digits and brackets included; booleans count in any case, as models write Python's.
    """
    types = _types(schema)
    bare = text.strip()
    if types == {"string"} or (types == {"string", "null"} and bare != "null"):
        return text, True
    if "boolean" in types and bare.lower() in ("true", "false"):
        return bare.lower() == "true", True
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return text, not types or "string" in types
    if not types or any(_is(value, each) for each in types):
        return value, True
    return text, "string" in types


def _types(schema: Any) -> set[str]:
    """Names of the JSON types that a schema allows; empty where it doesn't say."""
    if not isinstance(schema, Mapping):
        return set()
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared, "null"} if schema.get("nullable") is True else {declared}
    if isinstance(declared, Sequence):
        return {each for each in declared if isinstance(each, str)}
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, Sequence) and branches:
        found = [_types(branch) for branch in branches]
        return set().union(*found) if all(found) else set()
    values = schema.get("enum")
    if isinstance(values, Sequence) and values and all(isinstance(value, str) for value in values):
        return {"string"}
    return set()


def _is(value: Any, kind: str) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    if kind == "number":
        return not isinstance(value, bool) and isinstance(value, (int, float))
    if kind == "null":
        return value is None
    return isinstance(value, {"string": str, "array": list, "object": dict}.get(kind, ()))


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
