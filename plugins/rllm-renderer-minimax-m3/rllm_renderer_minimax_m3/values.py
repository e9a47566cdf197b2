"""Elements of a call to values of the types that the tool declares, by the core's schemas.

The format writes text without quotation marks, so ``42`` may be a number or text: the declared schema decides. Without one,
text becomes a value only where that value would be written as the very same text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_core.normal_form.arguments import Schema, json_value

from .rendering import scalar_text

_EMPTY: tuple[Any, ...] = ([], {}, None)
"""What an element without text may be besides the empty text."""


@dataclass
class Element:
    """One tag of a call: its name, the text in front of its first child, its children, and its inner text as written."""

    name: str
    text: str = ""
    children: list[Element] = field(default_factory=list)
    inner: str = ""


def to_value(element: Element, schema: Schema) -> tuple[Any, bool]:
    """The value of an element and ``True``; or, where the schema accepts none, the text as written and ``False``."""
    if schema.says_nothing:
        return _guess(element), True
    if element.children:
        for value in _structures(element, schema):
            if schema.accepts(value):
                return value, True
        return element.inner, False
    value, fits = schema.typed(element.text)
    for other in _EMPTY if not fits and not element.text.strip() else ():
        if schema.accepts(other):
            return other, True
    return value, fits


def _structures(element: Element, schema: Schema) -> Iterator[Any]:
    """The list and the object that an element may be, if each member fits its own schema."""
    if all(child.name == "item" for child in element.children):
        items = [to_value(child, schema.items()) for child in element.children]
        if all(fits for _, fits in items):
            yield [value for value, _ in items]
    members = {child.name: to_value(child, schema.member(child.name)) for child in element.children}
    if all(fits for _, fits in members.values()):
        yield {name: value for name, (value, _) in members.items()}


def _guess(element: Element) -> Any:
    if element.children:
        if all(child.name == "item" for child in element.children):
            return [_guess(child) for child in element.children]
        return {child.name: _guess(child) for child in element.children}
    try:
        value = json_value(element.text)
    except (ValueError, RecursionError):
        return element.text
    return value if isinstance(value, (bool, int, float)) and scalar_text(value) == element.text else element.text
