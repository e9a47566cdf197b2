"""The learned parser of a tokenizer's chat template: one for each tokenizer, template and set of variables."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

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
        known: dict[str, LearnedParser] = remembered(tokenizer, "parsers", sorted(values.items()), sorted(stop_ids))
        if not known:
            try:
                kept = weakref.proxy(tokenizer)  # the cache must not keep the tokenizer alive
            except TypeError:
                kept = tokenizer
            known["parser"] = LearnedParser.of(ChatTemplate(kept, variables).ids, kept, stop_ids)
        return known["parser"]
