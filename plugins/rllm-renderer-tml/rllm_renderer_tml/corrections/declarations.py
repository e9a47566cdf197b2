"""Rows about tool declarations: upstream writes keys of its own choice and order, templates print what is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.errors import ToolError

from ..conversion import as_json, canonical_json
from .context import Context


@dataclass(frozen=True)
class Form:
    """How a template prints declarations.

    Attributes:
        before: What upstream writes before the name of a function that has nothing but a name; ``after`` likewise.
        text: All declarations to what the template prints for them.
    """

    before: str
    after: str
    text: Callable[[Sequence[dict[str, Any]]], str]


def _compact(tools: Sequence[dict[str, Any]]) -> str:
    return json.dumps(list(tools), ensure_ascii=False, separators=(",", ":"))


WRAPPED = Form(
    '{"type": "function", "function": {"name": "',
    '", "description": "", "parameters": {}}}',
    lambda tools: "\n".join(as_json(tool) for tool in tools),
)
BARE = Form(
    '{"name": "',
    '", "description": "", "parameters": {}}',
    lambda tools: "\n".join(as_json(tool["function"]) for tool in tools),
)
COMPACT = Form('[{"function":{"description":"","name":"', '","parameters":{}},"type":"function"}]', _compact)


def _sorted(tools: Sequence[dict[str, Any]]) -> str:
    """Inkling's: four keys, whatever else is declared."""
    functions = [tool["function"] for tool in tools]
    return canonical_json(
        [
            {
                "type": "function",
                "name": each["name"],
                "description": each.get("description") or "",
                "parameters": each.get("parameters") or {},
            }
            for each in functions
        ]
    )


SORTED = Form('[{"description":"","name":"', '","parameters":{},"type":"function"}]', _sorted)


def printed(form: Form) -> Callable[[Sequence[Any], Context], Sequence[Any]]:
    """One stand-in for all declarations, whose text is what the template prints."""

    def declare(tools: Sequence[Any], context: Context) -> Sequence[Any]:
        name = context.splices.hold(form.text(tools), before=form.before, after=form.after)
        return [{"type": "function", "function": {"name": name, "description": "", "parameters": {}}}]

    return declare


def plain_schemas(tools: Sequence[Any], context: Context) -> Sequence[Any]:
    """Refuses what upstream writes in another spelling than the template: ``null`` and booleans of a schema, further keys.

    Raises:
        ToolError: With the index of the tool.
    """
    for index, tool in enumerate(tools):
        function = tool["function"]
        further = sorted(set(function) - {"name", "description", "parameters"})
        if further or _has_literals(function.get("parameters") or {}):
            what = f"the key {further[0]!r}" if further else "null or a boolean in its schema"
            raise ToolError(
                f"tool {index} ({function['name']}) has {what}, which upstream doesn't write as the template does",
                fix="leave it out, or choose another backend=",
                index=index,
            )
    return tools


def _has_literals(schema: Any) -> bool:
    if isinstance(schema, dict):
        return any(_has_literals(value) for value in schema.values())
    if isinstance(schema, list):
        return any(_has_literals(value) for value in schema)
    return schema is None or isinstance(schema, bool)
