"""Tools in one normal form: OpenAI's wrapper ``{"type": "function", "function": {...}}``, what serving passes to a template.

Properties that are null are left out of their schemas. Arrow (Parquet, a Hugging Face data set) gives every mapping of a column
the keys of all: each tool comes back with the properties of the others, as nulls. A null is no schema, so these are no
properties, and serving never shows them to a model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import MessageError, RendererError, ToolError
from ..types import ToolSpec

logger = logging.getLogger("rllm_renderer")

Declared = list[dict[str, Any]] | None
"""Declarations in normal form, ``None`` where none are known."""

_SAID = 64
"""So many different reasons are logged."""


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
    """OpenAI wrappers from wrappers, bare function dicts or ``ToolSpec``; no key is dropped, added or moved.

    But properties that are null: a columnar file adds them, and they are no schemas (``without_nulls``).

    Args:
        tools: Declarations.
        unusable: Called with the error of each that can't be used, which is left out, instead of raising it.

    Returns:
        ``None`` for ``None`` and for an empty list: a template treats both alike.

    Raises:
        ToolError: With the index of the tool that can't be used, and why.
    """
    if tools is None:
        return None
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise ToolError(f"tools must be a list of declarations, not {type(tools).__name__}")
    return normalized_list(tools, _tool, ToolError, unusable) or None


def normalized_list(
    values: Iterable[Any],
    normal: Callable[[int, Any], dict[str, Any]],
    kind: type[MessageError] | type[ToolError],
    unusable: Callable[[RendererError], None] | None = None,
) -> list[dict[str, Any]]:
    """The normal forms. What the caller's objects raise while they are read is an error of that kind."""
    what = "message" if kind is MessageError else "tool"
    try:
        values = list(values)
    except Exception as error:
        raise kind(f"{what}s can't be read: {type(error).__name__}: {error}", fix="pass a list") from error
    out: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        fault: RendererError
        try:
            out.append(normal(index, value))
            continue
        except RendererError as error:
            fault = error
        except Exception as error:
            fault = kind(f"{what} {index} can't be read: {type(error).__name__}: {error}", fix="pass a dict", index=index)
            fault.__cause__ = error
        if unusable is None:
            raise fault
        unusable(fault)
    return out


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """A mapping, from a mapping or an object such as the OpenAI client's (pydantic, or plain attributes)."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping) else None
    return None


class Declarations:
    """The usable ones of what callers pass. What is left out is logged, once for each reason.

    Args:
        name: ``backend:renderer``, for what is logged.
    """

    def __init__(self, name: str) -> None:
        self._name, self._said = name, set[str]()

    def usable(self, tools: Sequence[Any] | None) -> Declared:
        """The declarations in normal form, without those that can't be used."""
        if tools is None:
            return None
        try:
            return normalize_tools(tools, self._say)
        except RendererError as error:  # nothing that could be a list of declarations
            self._say(error)
            return None

    def _say(self, error: RendererError) -> None:
        reason = str(error).splitlines()[0]
        if reason not in self._said and len(self._said) < _SAID:
            self._said.add(reason)
            logger.warning("%s parses without a declaration: %s", self._name, reason)


def _tool(index: int, tool: Any) -> dict[str, Any]:
    if isinstance(tool, ToolSpec):
        tool = tool.to_dict()
    source = as_mapping(tool)
    if source is None:
        raise ToolError(f"tool {index} must be a mapping or a ToolSpec, not {type(tool).__name__}", index=index)
    function = source.get("function") if "function" in source else source
    function = as_mapping(function)
    if function is None:
        raise ToolError(f"tool {index}: function must be a mapping", index=index)
    if source.get("type", "function") != "function":
        raise ToolError(f"tool {index} is of type {source['type']!r}; only functions can be declared", index=index)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise ToolError(f"tool {index} has no function name", index=index)
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ToolError(f"tool {index} ({name}): parameters must be a JSON schema object", index=index)
    bare = function is source
    if parameters is not None and (schema := without_nulls(parameters)) is not parameters:
        function = {**function, "parameters": schema}
    if bare:
        return {"type": "function", "function": {key: value for key, value in function.items() if key != "type"}}
    return {"type": "function", **source, "function": dict(function)}


def without_nulls(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without named subschemas that are null, at any depth; the same object where there are none."""
    return _cleaned(schema) if _has_nulls(schema) else schema


def _has_nulls(schema: Any) -> bool:
    """By far the most tools have none, and each render and each parse asks."""
    if type(schema) is not dict and not isinstance(schema, Mapping):
        return isinstance(schema, list) and any(map(_has_nulls, schema))
    if _LEADS_ON.isdisjoint(schema):
        return False
    for keyword in _LEADS_ON.intersection(schema):
        value = schema[keyword]
        if keyword in _NESTED:
            found = _has_nulls(value)
        else:
            named = type(value) is dict or isinstance(value, Mapping)
            found = named and (None in value.values() or any(map(_has_nulls, value.values())))
        if found:
            return True
    return False


def _cleaned(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_cleaned(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, Mapping):
            out[keyword] = {name: _cleaned(each) for name, each in value.items() if each is not None}
        elif keyword in _NESTED:
            out[keyword] = _cleaned(value)
    return out
