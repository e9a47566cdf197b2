"""The learned parser of a tokenizer's chat template: one for each tokenizer, template and set of variables."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.normal_form.tokenizer import control_ids, memory_of, special_ids
from rllm_renderer_core.types import Message

from ..parser.learned import LearnedParser
from .template import ChatTemplate

_guard = threading.Lock()


def learned_parser(tokenizer: Any, variables: dict[str, Any], stop_ids: Sequence[int]) -> LearnedParser:
    """The parser of this tokenizer's template as it is now, kept as long as the tokenizer is.

    Args:
        tokenizer: With a chat template.
        variables: Keywords of the template.
        stop_ids: The ids at which sampling stops.
    """
    key = json.dumps([str(getattr(tokenizer, "chat_template", "")), variables, sorted(stop_ids)], sort_keys=True, default=repr)
    with _guard:
        known: dict[str, LearnedParser] = memory_of(tokenizer, "parsers")
        if key not in known:
            known[key] = _parser(tokenizer, variables, stop_ids)
        return known[key]


def _parser(tokenizer: Any, variables: dict[str, Any], stop_ids: Sequence[int]) -> LearnedParser:
    try:
        kept = weakref.proxy(tokenizer)  # the cache must not keep the tokenizer alive
    except TypeError:
        kept = tokenizer
    template = ChatTemplate(kept, variables)

    def render(
        messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return template.ids(messages, tools, opener=add_generation_prompt)

    def decode(ids: list[int]) -> str:
        return str(kept.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    return LearnedParser(render, decode, stop_ids, control_ids(tokenizer), special_ids(tokenizer))
