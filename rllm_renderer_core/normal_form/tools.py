"""Tools in one normal form: OpenAI's wrapper ``{"type": "function", "function": {...}}``, what serving passes to a template.

Properties that are null are left out of their schemas. Arrow (Parquet, a Hugging Face data set) gives every mapping of a column
the keys of all: each tool comes back with the properties of the others, as nulls. A null is no schema, so these are no
properties, and serving never shows them to a model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import MessageError, RendererError, ToolError
from ..types import ToolSpec

Declared = list[dict[str, Any]] | None
"""Declarations in normal form, ``None`` where none are known."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas."""

_NESTED = frozenset(
    {"items", "prefixItems", "contains", "additionalItems", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"}
    | {"propertyNames", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"}
)
"""Keywords whose value is a schema, or a list of them. Those of data (``default``, ``const``, ``enum``, ``examples``) aren't
among them: a null is a value there."""

_LEADS_ON = _NAMED | _NESTED


def normalize_tools(
    tools: Iterable[Any] | None, unusable: Callable[[RendererError], None] | None = None
) -> list[dict[str, Any]] | None:
    """OpenAI wrappers from wrappers, bare function dicts or ``ToolSpec``; no key but properties that are null is dropped.

    Args:
        tools: Declarations.
        unusable: Called with the error of each that can't be used, which is left out, instead of raising it.

    Returns:
        ``None`` for ``None`` and for an empty list: a template treats both alike.

    Raises:
        ToolError: With the index of the tool that can't be used, and why.
    """
    return None if tools is None else normalized_list(tools, _tool, ToolError, unusable) or None


def normalized_list(
    values: Iterable[Any],
    normal: Callable[[int, Any], dict[str, Any]],
    kind: type[MessageError] | type[ToolError],
    unusable: Callable[[RendererError], None] | None = None,
) -> list[dict[str, Any]]:
    """The normal forms. What the caller's objects raise while they are read is an error of that kind."""
    what = "message" if kind is MessageError else "tool"
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise kind(f"{what}s must be a list of {what if kind is MessageError else 'declaration'}s, not {type(values).__name__}")
    try:
        values = list(values)
    except Exception as error:
        raise kind(f"{what}s can't be read: {type(error).__name__}: {error}", fix="pass a list") from error
    normalized: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        try:
            normalized.append(normal(index, value))
        except Exception as error:
            fault: Any = error
            if not isinstance(error, RendererError):
                fault = kind(f"{what} {index} can't be read: {type(error).__name__}: {error}", fix="pass a dict", index=index)
                fault.__cause__ = error
            if unusable is None:
                raise fault from fault.__cause__
            unusable(fault)
    return normalized


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """A mapping, from a mapping or an object such as the OpenAI client's (pydantic)."""
    dump = None if isinstance(value, Mapping) else getattr(value, "model_dump", None)
    value = dump() if callable(dump) else value
    return value if isinstance(value, Mapping) else None


def _tool(index: int, tool: Any) -> dict[str, Any]:
    source = as_mapping(tool.to_dict() if isinstance(tool, ToolSpec) else tool)
    if source is None:
        raise ToolError(f"tool {index} must be a mapping or a ToolSpec, not {type(tool).__name__}", index=index)
    function = as_mapping(source.get("function", source))
    if function is None:
        raise ToolError(f"tool {index}: function must be a mapping", index=index)
    if source.get("type", "function") != "function":
        raise ToolError(f"tool {index} is of type {source['type']!r}; only functions can be declared", index=index)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise ToolError(f"tool {index} has no function name", index=index)
    parameters, bare = function.get("parameters"), function is source
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ToolError(f"tool {index} ({name}): parameters must be a JSON schema object", index=index)
    if (schema := without_nulls(parameters)) is not parameters:
        function = {**function, "parameters": schema}
    if bare:
        return {"type": "function", "function": {key: value for key, value in function.items() if key != "type"}}
    return {"type": "function", **source, "function": dict(function)}


def without_nulls(schema: Any) -> Any:
    """The schema without named subschemas that are null, at any depth; the same object where there are none, as in most."""
    if isinstance(schema, list):
        parts = [without_nulls(part) for part in schema]
        return schema if all(map(operator.is_, parts, schema)) else parts
    changed: dict[str, Any] = {}
    for keyword in _LEADS_ON.intersection(schema) if isinstance(schema, Mapping) else ():
        value = schema[keyword]
        if keyword in _NESTED:
            cleaned = without_nulls(value)
        elif isinstance(value, Mapping):
            kept = {name: without_nulls(part) for name, part in value.items() if part is not None}
            same = len(kept) == len(value) and all(map(operator.is_, kept.values(), value.values()))
            cleaned = value if same else kept
        else:
            continue
        if cleaned is not value:
            changed[keyword] = cleaned
    return {**schema, **changed} if changed else schema
