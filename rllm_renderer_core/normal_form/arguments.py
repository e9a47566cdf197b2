"""Arguments that a format writes as bare text, as values of the types that the tool declares. For every parser.

``42`` may be a number or text, ``False`` a boolean as Python prints it: the tool's JSON schema decides, by the package
``jsonschema``. The candidates are the text as it stands and the JSON value that it may be; the first that the schema accepts
wins, a declared string first. Where it accepts none, the text stays text and the call isn't OK. A number that JSON can't hold
(``1e400``, ``NaN``) is no candidate. Nothing here raises on what a model wrote, or on a schema that is broken: such a
schema declares nothing.

    schema = Schema.of_tool(tools, "look")
    values, status = typed_arguments(schema, [("q", "tea"), ("deep", "False")])     # every parameter as it was written
    value, fits = schema.member("deep").typed("False")                              # one of them
    status = json_status('{"q": "tea"}')                                            # a format that writes JSON
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from typing import Any

from ..types import ToolCallStatus

_NULLS = ("null", "None")
"""How templates print null, as JSON or as Python; ``none`` is an ordinary word, and often a value's own."""
_BOOLEANS = {"true": True, "false": False}
_ALIASES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "object", "list": "array"}
_ALIASES |= {kind.upper(): kind for kind in _ALIASES.values()}
"""Names of types that declarations have besides JSON Schema's: Python's, and those of Gemini's API."""
_KINDS: tuple[Any, ...] = (0, True, None, [], {})
"""One value of each type but text: a schema that accepts all of them doesn't say what it wants."""


class Schema:
    """One JSON schema of a tool's declaration, with the declaration that its ``$ref`` look into.

    Args:
        schema: The schema; anything that isn't one declares nothing.
        root: The declaration's ``parameters``; the schema itself where it is left out.
    """

    def __init__(self, schema: Any, root: Any = None) -> None:
        self._schema: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        self._root: Mapping[str, Any] = root if isinstance(root, Mapping) else self._schema

    @classmethod
    def of_tool(cls, tools: Sequence[Any] | None, name: str) -> Schema:
        """The parameters of the tool of this name among declarations in normal form; without one, what declares nothing."""
        for tool in tools or ():
            if tool["function"]["name"] == name:
                return cls(tool["function"].get("parameters"))
        return cls(None)

    def member(self, key: str) -> Schema:
        """The schema of an object's property."""
        found = []
        for schema in self._alternatives(self._schema):
            properties = schema.get("properties")
            if isinstance(properties, Mapping) and key in properties:
                found.append(properties[key])
            elif matching := [*_matching(schema.get("patternProperties"), key)]:
                found += matching
            elif isinstance(schema.get("additionalProperties"), Mapping):
                found.append(schema["additionalProperties"])
        return self._one_of(found)

    def property_names(self) -> list[str]:
        """The names of an object's declared properties, through ``$ref`` and the like."""
        properties = [schema.get("properties") for schema in self._alternatives(self._schema)]
        return list(dict.fromkeys(name for each in properties if isinstance(each, Mapping) for name in each))

    def items(self) -> Schema:
        """The schema of an array's items."""
        return self._one_of([schema["items"] for schema in self._alternatives(self._schema) if "items" in schema])

    def accepts(self, value: Any) -> bool:
        """Whether a JSON value is valid under the schema; a schema that is broken accepts any."""
        try:
            return not self._schema or bool(self._validator.is_valid(value))
        except Exception:  # a type that doesn't exist, a $ref to nowhere or in a circle, a pattern that isn't one
            return True

    def typed(self, text: str) -> tuple[Any, bool]:
        """The value of an argument's text, and whether the schema accepts it; what it doesn't accept is the text again.

        A text is a string first where the schema declares one, digits, brackets and white space included; but ``null`` is null
        where null is declared beside it, unless an ``enum`` lists this very text. Without a declaration it is the JSON value,
        else the text.
        """
        if self._schema.get("type") == "string" and self._schema.get("nullable") is not True:
            return text, self.accepts(text)
        values = [value for value in _values(text) if self.accepts(value)]
        if values and (self.says_nothing or (values[0] is None and not self._lists(text))):
            return values[0], True
        if self.says_nothing and not values and _reads_as_json(text):  # 1e400, a key twice: text, but not what was meant
            return text, False
        if self.accepts(text):
            return text, True
        return (values[0], True) if values else (text, False)

    def _lists(self, text: str) -> bool:
        """Whether an ``enum`` or ``const`` has this very text."""
        listed = [[schema.get("const"), *_listed(schema, "enum")] for schema in self._alternatives(self._schema)]
        return any(isinstance(value, str) and value == text for values in listed for value in values)

    @cached_property
    def says_nothing(self) -> bool:
        """Whether a value of any type is accepted."""
        return all(self.accepts(value) for value in _KINDS)

    @cached_property
    def _validator(self) -> Any:
        return _validator(json.dumps(self._root)).evolve(schema=self._schema)

    def _alternatives(self, schema: Any) -> list[Mapping[str, Any]]:
        """The schemas that may describe a value: through ``$ref``, ``allOf``, ``anyOf``, ``oneOf``, ``then`` and ``else``."""
        known: dict[int, Mapping[str, Any]] = {}
        waiting = [schema]
        for schema in waiting:  # which grows meanwhile
            if isinstance(schema, Mapping) and id(schema) not in known:
                known[id(schema)] = schema
                waiting += [self._target(schema.get("$ref")), schema.get("then"), schema.get("else")]
                waiting += [part for keyword in ("allOf", "anyOf", "oneOf") for part in _listed(schema, keyword)]
        return list(known.values())

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at: Any = self._root
        for step in reference[1:].strip("/").split("/") if reference.strip("#/") else ():
            at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, Mapping) else None
        return at

    def _one_of(self, schemas: list[Any]) -> Schema:
        return Schema(schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {}, self._root)


def typed_arguments(schema: Schema, pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, Any], ToolCallStatus]:
    """The arguments of a call whose parameters were written as bare text, and the status that follows from them.

    Args:
        schema: The tool's parameters.
        pairs: Name and text of each, in the order in which they were written.

    Returns:
        The values, and ``OK``; ``INVALID_ARGUMENT`` where one isn't of its declared type and stays text; or
        ``MALFORMED_STRUCTURE`` where a name comes twice (then neither value can be trusted; the last one is kept).
    """
    values: dict[str, Any] = {}
    status = ToolCallStatus.OK
    for key, text in pairs:
        value, fits = schema.member(key).typed(text)
        if key in values:
            status = ToolCallStatus.MALFORMED_STRUCTURE
        elif not fits and status is ToolCallStatus.OK:
            status = ToolCallStatus.INVALID_ARGUMENT
        values[key] = value
    return values, status


def json_status(text: str) -> ToolCallStatus:
    """The status of arguments that the format writes as JSON.

    ``OK`` for one object; ``INVALID_JSON`` for what isn't JSON; ``MALFORMED_STRUCTURE`` for another value, or a key that comes
    twice in an object; ``INVALID_ARGUMENT`` for a number that JSON can't hold, or of more digits than Python reads (4,300).
    """
    try:
        return ToolCallStatus.OK if isinstance(json_value(text), dict) else ToolCallStatus.MALFORMED_STRUCTURE
    except _RepeatedKey:
        return ToolCallStatus.MALFORMED_STRUCTURE
    except (ValueError, RecursionError):
        return ToolCallStatus.INVALID_ARGUMENT if _reads_as_json(text) else ToolCallStatus.INVALID_JSON


def json_value(text: str) -> Any:
    """The value of JSON text.

    Raises:
        ValueError: It isn't JSON, has a number that JSON can't hold, or an object that has a key twice.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_unique)


class _RepeatedKey(ValueError):
    pass


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    listed = schema.get(keyword)
    return listed if isinstance(listed, list) else []


def _matching(patterns: Any, key: str) -> Iterator[Any]:
    """The schemas of ``patternProperties`` whose pattern a name matches."""
    for pattern, schema in patterns.items() if isinstance(patterns, Mapping) else ():
        with suppress(re.error, TypeError):
            if re.search(pattern, key):
                yield schema


def _values(text: str) -> list[Any]:
    """What a text may mean besides itself: the JSON value, or a word of Python's for one. A string in quotes is no other."""
    bare = text.strip()
    if bare in _NULLS:
        return [None]
    if bare.lower() in _BOOLEANS:
        return [_BOOLEANS[bare.lower()]]
    try:
        value = json_value(bare)
    except (ValueError, RecursionError):
        return []
    return [] if isinstance(value, str) else [value]


def _reads_as_json(text: str) -> bool:
    """Whether a text is JSON but for numbers and keys that ``json_value`` refuses; text in quotes isn't asked for."""
    try:
        return not isinstance(json.loads(text, parse_int=float), str)
    except (ValueError, RecursionError):
        return False


def _finite(text: str) -> float:
    value = float(text)
    lost = value == 0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])
    return _refuse(text) if lost or not math.isfinite(value) else value


def _refuse(text: str) -> Any:
    raise ValueError(f"JSON can't hold {text[:40]}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(unique := dict(pairs)) < len(pairs):
        raise _RepeatedKey("an object has a key twice")
    return unique


@lru_cache(maxsize=256)
def _validator(root: str) -> Any:
    """The validator of a declaration's parameters. ``evolve(schema=)`` validates under a part of it."""
    from referencing import Registry

    # With a registry of its own nothing is downloaded for a $ref to elsewhere.
    return _dialect()(json.loads(root), registry=Registry())


@cache
def _dialect() -> Any:
    """JSON Schema 2020-12 with what declarations use besides: OpenAPI's ``nullable``, other names of types."""
    from jsonschema import Draft202012Validator, validators

    checker = Draft202012Validator.TYPE_CHECKER
    known = {alias: (lambda _, value, kind=kind: checker.is_type(value, kind)) for alias, kind in _ALIASES.items()}
    by_type = Draft202012Validator.VALIDATORS["type"]

    def type_or_nullable(validator: Any, types: Any, value: Any, schema: Any) -> Iterable[Any]:
        if value is None and schema.get("nullable") is True:
            return ()
        return by_type(validator, types, value, schema) or ()

    return validators.extend(
        Draft202012Validator, validators={"type": type_or_nullable}, type_checker=checker.redefine_many(known)
    )
