"""Formats that write a turn as messages: what their control tokens mean, by the names of these without the bars (``start``).

harmony (gpt-oss)  <|start|> assistant to=... <|channel|> ... <|message|> body <|end|> ... <|return|> or <|call|>
Inkling            <|message_model|> name? <|content_...|> body <|end_message|> ... <|content_model_end_sampling|>
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from rllm_renderer_core.normal_form.tokenizer import added_tokens, decoder_of

from ..parser.calls.notations import json_members
from .parser import CALL, REASONING, TEXT, UNKNOWN, Block, BlockForm, BlockParser


def block_parser(tokenizer: Any) -> BlockParser | None:
    """The parser of the format whose control tokens a tokenizer has; ``None`` where it has those of no such format."""
    tokens = added_tokens(tokenizer)
    for form, names in _FORMS.items():
        if {f"<|{name}|>" for name in names} <= tokens.keys():
            return BlockParser(form(lambda name: tokens[f"<|{name}|>"]), decoder_of(tokenizer), tokens.values())
    return None


def harmony(tag: Callable[[str], int]) -> BlockForm:
    """Harmony's form; ``tag`` gives the id of a control token by its name."""
    recipient, kind_of_body = r"to=(?:(?!<\|)\S)+", r"(?:\s*<\|constrain\|>\s*(?:json|code)?|\s+(?:json|code))"
    head_of = re.compile(rf"\s*(?:assistant)?\s*(?P<first>{recipient})?\s*(?:<\|channel\|>\s*(?P<channel>\w+))?"
                         rf"\s*(?P<second>{recipient})?{kind_of_body}?\s*")  # fmt: skip

    def read(head: str) -> re.Match[str] | None:
        return head_of.fullmatch(head)

    def kind(block: Block, head: str) -> str:
        found = read(head)
        if block.mark is None or found is None:
            return UNKNOWN
        if found["first"] or found["second"]:
            return UNKNOWN if found["first"] and found["second"] not in (None, found["first"]) else CALL
        return {"analysis": REASONING, "commentary": TEXT, "final": TEXT}.get(found["channel"] or "", UNKNOWN)

    def call(head: str, body: str) -> tuple[str, str]:
        found = read(head)
        assert found is not None
        return (found["first"] or found["second"]).removeprefix("to=").removeprefix("functions."), body.strip()

    stops = frozenset({tag("call"), tag("return")})
    within = frozenset({tag("channel"), tag("constrain")})
    marks, closes = frozenset({tag("message")}), stops | {tag("end")}
    words = frozenset({"assistant", "commentary", "json", "code"})
    return BlockForm(tag("start"), marks, closes, stops, within, kind, call, lambda head: "to=" in head, words)


def inkling(tag: Callable[[str], int]) -> BlockForm:
    """Inkling's form; ``tag`` gives the id of a control token by its name."""
    kinds = {
        tag("content_thinking"): REASONING,
        tag("content_text"): TEXT,
        tag("content_invoke_tool_json"): CALL,
        tag("content_invoke_tool_text"): CALL,
    }

    def kind(block: Block, head: str) -> str:
        found = kinds.get(block.mark, UNKNOWN) if block.mark is not None else UNKNOWN
        return found if found == CALL or not head.strip() else UNKNOWN

    def call(head: str, body: str) -> tuple[str, str]:
        said = json.loads(body)
        if not isinstance(said, dict) or said.keys() != {"name", "args"} or not isinstance(said["name"], str):
            raise ValueError
        if head.strip() not in ("", said["name"]):
            raise ValueError
        start, end = next((low, high) for key, low, high in json_members(body, body.index("{")) if key == "args")
        return said["name"], body[start:end]

    ends = frozenset({tag("content_model_end_sampling")})
    closes = frozenset({tag("end_message")})
    return BlockForm(tag("message_model"), frozenset(kinds), closes, ends, frozenset(), kind, call, lambda head: False)


_FORMS: Mapping[Callable[[Callable[[str], int]], BlockForm], tuple[str, ...]] = {
    harmony: ("start", "channel", "constrain", "message", "end", "call", "return"),
    inkling: (
        "message_model", "content_thinking", "content_text", "content_invoke_tool_json", "content_invoke_tool_text",
        "content_model_end_sampling", "end_message",
    ),
}  # fmt: skip
"""Each format with its control tokens."""
