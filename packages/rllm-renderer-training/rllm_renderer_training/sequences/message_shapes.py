"""Shapes of messages: what of a conversation decides how it is framed, and stand-ins of the same shapes.

How a format frames a message depends on its role, its keys, whether its texts are blank, and on the shape of its calls and
results, not on what the texts say; but for texts that spell what the format itself tests for, which ``tested_texts`` finds.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rllm_renderer_core.guards.nothing_dropped.dropped import shape_of
from rllm_renderer_core.normal_form.tokenizer import chat_templates

Shape = tuple[Any, ...]

_KNOWN = frozenset({"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"})


def message_shapes(messages: Sequence[dict[str, Any]]) -> list[Shape]:
    """The shape of each message, in normal form; all contents are text."""
    return [(shape, *_details(message)) for shape, message in zip(shape_of(list(messages)), messages, strict=True)]


def _details(message: Mapping[str, Any]) -> Iterator[Any]:
    """What a training sequence also depends on: blank reasoning, the types of arguments, the values of further keys."""
    if "reasoning_content" in message:
        yield _blank(message["reasoning_content"])
    for call in message.get("tool_calls") or ():
        arguments = _arguments(call)
        yield len(call.get("id", "")) == 9, None if arguments is None else tuple(map(_value_shape, arguments.values()))
    yield from (repr(message[key]) for key in message if key not in _KNOWN)


def _blank(text: str) -> str | bool:
    return True if text.strip() else text


def _arguments(call: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _value_shape(value: Any) -> Any:
    return _blank(value) if isinstance(value, str) else (type(value).__name__, bool(value))


class StandIns:
    """Messages of the same shapes with short texts in place of theirs, each its own, numbered through one conversation."""

    def __init__(self) -> None:
        self._count = 0
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def of(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The stand-ins. Results keep their calls, if those are among the messages."""
        self._names, self._ids = {}, {}
        return [self._message(message) for message in messages]

    def _word(self) -> str:
        self._count += 1
        return f"zq{self._count}"

    def _text(self, text: str) -> str:
        return self._word() if text.strip() else text

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        texts = {key: self._text(message[key]) for key in ("content", "reasoning_content") if key in message}
        stand_in = {**message, **texts}
        if "tool_calls" in message:
            stand_in["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
        if message["role"] == "tool":
            for key, known in (("tool_call_id", self._ids), ("name", self._names)):
                if key in message:
                    stand_in[key] = known.get(message[key], message[key])
        return stand_in

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = call["function"]["name"], _arguments(call)
        given = self._names[name] = f"look_{self._word()}"
        text = call["function"]["arguments"]
        if arguments is not None:
            text = json.dumps({f"k{at}": self._value(value) for at, value in enumerate(arguments.values())})
        stand_in = {**call, "function": {**call["function"], "name": given, "arguments": text}}
        if "id" in call:
            self._count += 1
            own = call["id"].replace(name, given) if name in call["id"] else f"call{self._count:05d}"
            stand_in["id"] = self._ids[call["id"]] = own
        return stand_in

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return value and [1]
        return value and {"k": 1} if isinstance(value, dict) else value


_ALWAYS_TESTED = ("think>", "<think", "/think", "/no_think", "<tool_response", "</tool_response", "<|", "[THINK]", "[/THINK]")


def tested_texts(tokenizer: Any) -> list[str]:
    """Texts that a format may look for in the texts of messages, so that what a message says changes how it is framed.

    They are read from the tests of the tokenizer's chat template, which hand-written renderers follow; with those that are
    known of formats whose template isn't there.
    """
    return sorted({*_ALWAYS_TESTED, *(text for source in chat_templates(tokenizer).values() for text in _tested(source))})


def texts_of(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message, its calls' arguments among them."""
    yield message["content"]
    if message.get("reasoning_content"):
        yield message["reasoning_content"]
    for call in message.get("tool_calls") or ():
        yield call["function"]["arguments"]


_METHODS = frozenset(
    {"startswith", "endswith", "split", "rsplit", "partition", "rpartition", "find", "rfind", "index", "count", "replace"}
)
"""Methods of texts that look for others in them."""


@functools.lru_cache(maxsize=64)
def _tested(source: str) -> frozenset[str]:
    """Constants that the template compares texts with, looks for, splits at or replaces."""
    if importlib.util.find_spec("jinja2") is None:
        return frozenset()
    from jinja2 import Environment, nodes

    try:
        # without the tags of transformers' own extension, which mark what is said
        plain = re.sub(r"\{%-? (end)?generation -?%\}", "", source)
        tree = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain)
    except Exception:  # tags of extensions that aren't known here
        return frozenset()
    constants: set[str] = set()
    for node in tree.find_all((nodes.Compare, nodes.Call, nodes.Filter)):
        if isinstance(node, nodes.Filter) and node.name != "replace":
            continue
        if isinstance(node, nodes.Call) and getattr(node.node, "attr", None) not in _METHODS:
            continue
        constants.update(const.value for const in node.find_all(nodes.Const) if isinstance(const.value, str))
    # Words are roles, keys and types; blanks are trimmed.
    return frozenset(text for text in constants if len(text) > 1 and not text.isspace() and not text.replace("_", "").isalnum())
