"""Argument texts as values of their declared types; JSON arguments and what JSON can't hold."""

from __future__ import annotations

import pytest

from rllm_renderer_core.normal_form.arguments import Schema, json_status, json_value, typed_arguments
from rllm_renderer_core.types import ToolCallStatus

DIGITS = "4" * 4400

# schema, text, value, whether it fits
TYPED = [
    # A declared string is text as it stands.
    ({"type": "string"}, "0042", "0042", True),
    ({"type": "string"}, "[1, 2]", "[1, 2]", True),
    ({"type": "string"}, " two\n", " two\n", True),
    ({"type": "string"}, "true", "true", True),
    ({"type": "string"}, "null", "null", True),
    ({"type": "string"}, DIGITS, DIGITS, True),
    ({"type": ["integer", "string"]}, "5", "5", True),
    ({"anyOf": [{"type": "string"}, {"type": "object"}]}, '{"a": 1}', '{"a": 1}', True),
    # Null beside it is null.
    ({"type": ["string", "null"]}, "null", None, True),
    ({"type": ["string", "null"]}, "nullable", "nullable", True),
    ({"type": "string", "nullable": True}, "null", None, True),
    ({"type": ["string", "null"]}, "None", None, True),
    # An ordinary word is none of its spellings, nor is what an enum lists itself.
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "none", "none", True),
    ({"type": ["string", "null"]}, "NONE", "NONE", True),
    ({"enum": ["none", "auto", None]}, "none", "none", True),
    ({"enum": ["null", "x", None]}, "null", "null", True),
    ({"type": ["integer", "null"]}, "none", "none", False),
    ({}, "none", "none", True),
    # Booleans as templates print them.
    ({"type": "boolean"}, "False", False, True),
    ({"type": "boolean"}, "FALSE", False, True),
    ({"type": "boolean"}, "true", True, True),
    ({"type": "boolean"}, "no", "no", False),
    ({"type": "boolean"}, "1", "1", False),
    # Numbers, and those that JSON can't hold.
    ({"type": "integer"}, "7", 7, True),
    ({"type": "integer"}, "7.5", "7.5", False),
    ({"type": "integer"}, "True", "True", False),
    ({"type": "number"}, "7.5", 7.5, True),
    ({"type": "number"}, "soon", "soon", False),
    ({"type": "number"}, "NaN", "NaN", False),
    ({"type": "number"}, "-Infinity", "-Infinity", False),
    ({"type": "number"}, "1e-400", "1e-400", False),
    ({"type": "integer"}, DIGITS, DIGITS, False),
    # Structures.
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2], True),
    ({"type": "array", "items": {"type": "integer"}}, '["a"]', '["a"]', False),
    ({"type": "object"}, '{"a": "é"}', {"a": "é"}, True),
    ({"type": "object"}, "[1]", "[1]", False),
    ({"type": "object"}, '{"a": 1e400}', '{"a": 1e400}', False),
    ({"type": "object"}, '{"a": 1, "a": 2}', '{"a": 1, "a": 2}', False),
    # Alternatives, enums, constants.
    ({"oneOf": [{"type": "integer"}, {"type": "array"}]}, "[1]", [1], True),
    ({"enum": ["5", 6]}, "5", "5", True),
    ({"enum": ["5", 6]}, "6", 6, True),
    ({"enum": ["low", "high"]}, "middle", "middle", False),
    ({"const": True}, "True", True, True),
    # Names of types that declarations use though JSON Schema hasn't them.
    ({"type": "str"}, "7", "7", True),
    ({"type": "float"}, "7", 7, True),
    ({"type": "STRING"}, "7", "7", True),
    ({"type": "INTEGER"}, "7", 7, True),
    # Nothing declared: JSON's value, else text.
    ({}, "5", 5, True),
    ({}, "tea", "tea", True),
    ({}, '"tea"', '"tea"', True),
    ({}, "[1", "[1", True),
    ({"description": "any"}, "null", None, True),
    ({}, "1e400", "1e400", False),
    ({}, '{"a": NaN}', '{"a": NaN}', False),
    ({}, DIGITS, DIGITS, False),
    # A schema that is broken declares nothing.
    ({"type": "nonsense"}, "7", 7, True),
    ({"$ref": "#/nowhere"}, "7", 7, True),
    ({"$ref": "http://127.0.0.1:1/x"}, "7", 7, True),
    ({"$ref": "#"}, "7", 7, True),
    ({"pattern": "("}, "tea", "tea", True),
    ("string", "7", 7, True),
    (None, "7", 7, True),
]


@pytest.mark.parametrize(("schema", "text", "value", "fits"), TYPED, ids=[f"{s}-{t[:12]}" for s, t, _, _ in TYPED])
def test_a_text_has_the_value_that_its_schema_accepts(schema, text, value, fits):
    found = Schema(schema).typed(text)
    assert found == (value, fits)
    assert type(found[0]) is type(value)


def test_a_boolean_or_null_as_python_prints_them():
    schema = Schema({"anyOf": [{"type": "boolean"}, {"type": "null"}]})
    assert [schema.typed(text) for text in ("False", "None", "no")] == [(False, True), (None, True), ("no", False)]


def test_a_number_beyond_json_stays_text():
    schema = Schema({"properties": {"n": {"type": "number"}}})
    assert typed_arguments(schema, [("n", "1e400")]) == ({"n": "1e400"}, ToolCallStatus.INVALID_ARGUMENT)
    assert json_status('{"n": 1e400}') is ToolCallStatus.INVALID_ARGUMENT


def test_an_integer_of_4400_digits_raises_nowhere():
    schema = Schema({"properties": {"n": {"type": "integer"}}})
    assert typed_arguments(schema, [("n", DIGITS)]) == ({"n": DIGITS}, ToolCallStatus.INVALID_ARGUMENT)
    assert json_status(f'{{"n": {DIGITS}}}') is ToolCallStatus.INVALID_ARGUMENT


def test_declared_string_and_declared_number():
    schema = Schema({"properties": {"zip": {"type": "string"}, "in": {"type": "number"}}})
    values, status = typed_arguments(schema, [("zip", "10001"), ("in", "soon")])
    assert (values, status) == ({"zip": "10001", "in": "soon"}, ToolCallStatus.INVALID_ARGUMENT)


def test_a_parameter_that_comes_twice_is_not_ok():
    _, status = typed_arguments(Schema(None), [("q", "tea"), ("q", "coffee")])
    assert status is ToolCallStatus.MALFORMED_STRUCTURE
    assert json_status('{"q": "tea", "q": "coffee"}') is ToolCallStatus.MALFORMED_STRUCTURE


def test_references_reach_into_the_whole_declaration():
    point = {"type": "object", "properties": {"x": {"type": "integer"}, "s": {"type": "string"}}, "required": ["x"]}
    root = Schema(
        {
            "$defs": {"P": point, "Q": {"allOf": [{"$ref": "#/$defs/P"}]}},
            "properties": {"p": {"$ref": "#/$defs/P"}, "all": {"type": "array", "items": {"$ref": "#/$defs/Q"}}},
            "additionalProperties": {"type": "string"},
        }
    )
    assert root.member("p").typed('{"x": 4}') == ({"x": 4}, True)
    assert root.member("p").typed('{"x": "4"}') == ('{"x": "4"}', False)
    assert root.member("all").items().member("s").typed("4") == ("4", True)
    assert root.member("all").items().member("x").typed("4") == (4, True)
    assert root.member("others").typed("4") == ("4", True)


def test_names_by_pattern():
    schema = Schema({"patternProperties": {"^s_": {"type": "string"}, "(": {"type": "string"}}})
    assert schema.member("s_zip").typed("0042") == ("0042", True)
    assert schema.member("n").typed("42") == (42, True)


def test_kinds_that_refer_to_one_another():
    """OpenAPI's polymorphism: a shape is one of its kinds, and each kind is a shape."""
    kinds = [f"Kind{at}" for at in range(200)]
    shape = {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds]}
    each = {kind: {"allOf": [{"$ref": "#/$defs/Shape"}, {"properties": {kind: {"type": "string"}}}]} for kind in kinds}
    schema = Schema({"$ref": "#/$defs/Shape", "$defs": {"Shape": shape, **each}})
    assert schema.member("Kind7").typed("42") == ("42", True)


def test_of_tool_finds_the_declaration():
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"properties": {"q": {"type": "string"}}}}}]
    assert Schema.of_tool(tools, "look").member("q").typed("4") == ("4", True)
    assert Schema.of_tool(tools, "other").member("q").typed("4") == (4, True)
    assert Schema.of_tool(None, "look").member("q").typed("4") == (4, True)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("{}", "ok"), ('{"a": [1, {"b": null}]}', "ok"), ("[1]", "malformed_structure"), ('"a"', "malformed_structure"),
        ("{", "invalid_json"), ("", "invalid_json"), ("{'a': 1}", "invalid_json"), ('{"a": NaN}', "invalid_argument"),
        ('{"a": {"b": 1, "b": 1}}', "malformed_structure"), ("[" * 100_000, "invalid_json"),
    ],
    ids=lambda each: each[:24],
)  # fmt: skip
def test_arguments_in_json(text, status):
    assert json_status(text) == status


def test_numbers_that_floats_hold_are_values():
    assert json_value("[1e21, 0.0, 0e5, 123456789012345678901234567890]") == [1e21, 0.0, 0.0, 123456789012345678901234567890]
