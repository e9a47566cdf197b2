"""The learned parser of a tokenizer's chat template: one for each tokenizer, template and set of variables."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.types import Message

from ..memory import remembered
from ..parser.learned import LearnedParser
from .prelude import CLOCK, DATE
from .template import ChatTemplate

_guard = threading.Lock()


def learned_parser(tokenizer: Any, variables: dict[str, Any], stop_ids: Sequence[int]) -> LearnedParser:
    """The parser of this tokenizer's template as it is now, kept as long as the tokenizer is.

    Args:
        tokenizer: With a chat template.
        variables: Keywords of the template.
        stop_ids: The ids at which sampling stops.
    """
    # The day is passed as a bound method, whose ``repr`` is an address.
    values = {name: value(DATE) if name == CLOCK else value for name, value in variables.items()}
    with _guard:
        known = remembered(tokenizer, "parsers", sorted(values.items()), sorted(stop_ids))
        if not known:
            known["parser"] = _parser(tokenizer, variables, stop_ids)
        parser: LearnedParser = known["parser"]
        return parser


def _parser(tokenizer: Any, variables: dict[str, Any], stop_ids: Sequence[int]) -> LearnedParser:
    try:
        kept = weakref.proxy(tokenizer)  # the cache must not keep the tokenizer alive
    except TypeError:
        kept = tokenizer
    template = ChatTemplate(kept, variables)

    def render(
        messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return template.ids(messages, tools, add_generation_prompt)

    return LearnedParser.of(render, kept, stop_ids)
