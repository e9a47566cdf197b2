"""Text of an argument to a value of the type that the tool declares.

The format writes text without quotation marks, so ``42`` may be a number or text: the declared schema decides. Without one,
text becomes a value only where that value would be written as the very same text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .rendering import scalar_text

_ALIASES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "object", "list": "array"}
_TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}
_DEPTH = 16
_FAILED = object()


@dataclass
class Element:
    """One tag of a call: its name, the text in front of its first child, its children, and its inner text as written."""

    name: str
    text: str = ""
    children: list[Element] = field(default_factory=list)
    inner: str = ""


def to_value(element: Element, schema: Any, root: Any) -> tuple[Any, bool]:
    """The value of an element, and whether it is of the declared type.

    Args:
        element: What the model wrote.
        schema: JSON schema of the value; anything that isn't one counts as no declaration.
        root: The schema that ``$ref`` looks into.

    Returns:
        The value and ``True``; or the text as written and ``False``.
    """
    options = list(_alternatives(schema, root, _DEPTH))
    kinds = {kind for kind, _ in options}
    if not options or None in kinds:
        return _guess(element), True
    for kind, option in options:
        if element.children:
            value, fits = _structure(element, kind, option, root)
            if fits:
                return value, True
        elif kind != "string":
            value = _scalar(element.text, kind)
            if value is not _FAILED and ("string" not in kinds or _writes(value, element.text)):
                return value, True
    if element.children:
        return element.inner, False
    return element.text, "string" in kinds


def members(schema: Any, root: Any) -> tuple[Mapping[str, Any], Any]:
    """Schemas of an object's named properties, and of all others."""
    schema = _resolve(schema, root)
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}, schema.get("additionalProperties")


def _resolve(schema: Any, root: Any) -> Mapping[str, Any]:
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#"):
            return schema
        schema = root
        for step in ref[1:].strip("/").split("/") if ref != "#" else ():
            schema = schema.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Mapping) else None
    return {}


def _alternatives(schema: Any, root: Any, depth: int) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """The single types that a schema allows, each with the schema that declares it; ``None`` for any type."""
    schema = _resolve(schema, root)
    if not schema or depth == 0:
        yield None, {}
        return
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    if declared is not None:
        for name in names:
            name = _ALIASES.get(name, name) if isinstance(name, str) else None
            yield (name if name in _TYPES else None), schema
    else:
        choices = next((schema[key] for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list)), None)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if choices:
            for choice in choices:
                yield from _alternatives(choice, root, depth - 1)
        elif isinstance(values, list) and values:
            for value in values:
                yield _type_of(value), schema
        elif "properties" in schema:
            yield "object", schema
        elif "items" in schema:
            yield "array", schema
        else:
            yield None, schema
    if schema.get("nullable") is True:
        yield "null", schema


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for python, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, python):
            return name
    return "object"


def _scalar(text: str, kind: str | None) -> Any:
    """The value of text without tags as a type, or ``_FAILED``. JSON text of an array or object is taken too."""
    stripped = text.strip()
    if kind == "boolean":
        return {"true": True, "false": False}.get(stripped.lower(), _FAILED)
    if kind == "null":
        return None if stripped in ("", "null", "None") else _FAILED
    if not stripped and kind in ("array", "object"):
        return [] if kind == "array" else {}
    value = _json(stripped)
    if kind in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return _FAILED
        if kind == "integer" and isinstance(value, float):
            return int(value) if value.is_integer() else _FAILED
        return value
    return value if isinstance(value, list if kind == "array" else dict) else _FAILED


def _json(text: str) -> Any:
    """The value of JSON text with finite numbers, or ``_FAILED``."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return _FAILED


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _structure(element: Element, kind: str | None, schema: Mapping[str, Any], root: Any) -> tuple[Any, bool]:
    if kind == "array" and all(child.name == "item" for child in element.children):
        pairs = [to_value(child, schema.get("items"), root) for child in element.children]
        return [value for value, _ in pairs], all(fits for _, fits in pairs)
    if kind == "object":
        named, others = members(schema, root)
        found = {child.name: to_value(child, named.get(child.name, others), root) for child in element.children}
        return {name: value for name, (value, _) in found.items()}, all(fits for _, fits in found.values())
    return None, False


def _guess(element: Element) -> Any:
    if element.children:
        if all(child.name == "item" for child in element.children):
            return [_guess(child) for child in element.children]
        return {child.name: _guess(child) for child in element.children}
    value = _json(element.text)
    return value if isinstance(value, (bool, int, float)) and _writes(value, element.text) else element.text


def _writes(value: Any, text: str) -> bool:
    return not isinstance(value, (list, dict)) and value is not None and scalar_text(value) == text
