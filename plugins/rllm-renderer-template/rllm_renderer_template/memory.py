"""What is remembered of a tokenizer, under all that the ids of its chat template depend on."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.normal_form.tokenizer import added_tokens, chat_templates, eos_ids, memory_of, special_ids
from rllm_renderer_core.plugin import Query


def remembered(tokenizer: Any, what: str, *more: Any) -> dict[Any, Any]:
    """A dict that lives as long as the tokenizer, for its templates, tokens and ``more`` as they are now.

    What is kept in it saves work and never changes an answer: a template, a special token or an added token that is changed
    afterwards has a dict of its own. Nothing in it may refer to the tokenizer, which it would keep alive for ever.

    Args:
        tokenizer: With or without a chat template.
        what: What is remembered.
        more: What else it depends on, as values whose ``repr`` tells them apart.
    """
    special = getattr(tokenizer, "special_tokens_map", None)
    cleanup = getattr(tokenizer, "clean_up_tokenization_spaces", None)
    tokens = sorted(added_tokens(tokenizer).items()), sorted(special_ids(tokenizer)), special, cleanup, eos_ids(tokenizer)
    known: dict[Any, Any] = memory_of(tokenizer, what).setdefault(repr((chat_templates(tokenizer), tokens, more)), {})
    return known


def options_of(query: Query) -> tuple[Any, ...]:
    """The options of a query that its renderers may depend on, as values whose ``repr`` tells them apart."""
    processor = query.image_processor
    values = getattr(processor, "to_dict", None)
    images = type(processor).__name__, sorted(values().items(), key=repr) if callable(values) else repr(processor)
    kwargs = sorted(query.chat_template_kwargs.items())
    return query.thinking, query.thinking_retention, kwargs, images, query.template_bridge, query.date
