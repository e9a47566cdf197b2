"""JSON schemas of tools without the properties that a columnar file adds as nulls.

Arrow (Parquet, a Hugging Face data set) gives every mapping of a column the keys of all: each tool comes back with the
properties of the others, as nulls. A null is no schema, so these are no properties, and serving never shows them to a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas."""

_NESTED = frozenset(
    {"items", "prefixItems", "contains", "additionalItems", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"}
    | {"propertyNames", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"}
)
"""Keywords whose value is a schema, or a list of them. Those of data (``default``, ``const``, ``enum``, ``examples``) aren't
among them: a null is a value there."""

_LEADS_ON = _NAMED | _NESTED


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
