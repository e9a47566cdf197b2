"""Inkling's completions, whose turn is a list of messages, read by the core's parser of such formats; harmony's as well.

Inkling:  <|message_model|> name? <|content_...|> body <|end_message|> ... <|content_model_end_sampling|>
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from rllm_renderer_core.learned.blocks import CALL, REASONING, TEXT, UNKNOWN, Block, BlockForm, harmony


def inkling(tag: Callable[[str], int]) -> BlockForm:
    """Inkling's form; ``tag`` gives the id of a control token by upstream's name."""
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
        return said["name"], _member(body, "args")

    ends = frozenset({tag("content_model_end_sampling")})
    closes = frozenset({tag("end_message")})
    return BlockForm(tag("message_model"), frozenset(kinds), closes, ends, frozenset(), kind, call, lambda head: False)


FORMS: Mapping[str, Callable[[Callable[[str], int]], BlockForm]] = {"v0": inkling, "GptOss": harmony}
"""By the name of upstream's class."""


def _member(text: str, key: str) -> str:
    """The text of the value of a JSON object's last member, as it was written."""
    decoder = json.JSONDecoder()
    at = text.index("{") + 1
    while True:
        found = re.compile(r"[\s,]*").match(text, at)
        name, at = decoder.raw_decode(text, found.end() if found else at)
        at = text.index(":", at) + 1
        at += len(text[at:]) - len(text[at:].lstrip())
        _, end = decoder.raw_decode(text, at)
        if name == key:
            return text[at:end]
        at = end
