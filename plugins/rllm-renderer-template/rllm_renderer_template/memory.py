"""What is remembered of a tokenizer, under all that the ids of its chat template depend on."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.normal_form.tokenizer import added_tokens, chat_templates, eos_ids, memory_of
from rllm_renderer_core.plugin import Query


def remembered(tokenizer: Any, what: str, *more: Any) -> dict[Any, Any]:
    """A dict that lives as long as the tokenizer, for its templates, tokens and ``more`` as they are now.

    What is kept in it saves work and never changes an answer: a template, a special token or an added token that is changed
    afterwards has a dict of its own. Nothing in it may refer to the tokenizer, which it would keep alive for ever. ``more`` are
    values whose ``repr`` tells them apart.
    """
    decoder = getattr(tokenizer, "added_tokens_decoder", None)  # asked once: of 6,000 tokens (Gemma 3) it costs milliseconds
    if isinstance(decoder, dict):
        tokens = sorted((index, str(token), bool(getattr(token, "special", True))) for index, token in decoder.items())
    else:
        tokens = sorted((index, text, True) for text, index in added_tokens(tokenizer).items())
    named = getattr(tokenizer, "special_tokens_map", None), getattr(tokenizer, "clean_up_tokenization_spaces", None)
    key = repr((chat_templates(tokenizer), tokens, named, eos_ids(tokenizer), more))
    known: dict[Any, Any] = memory_of(tokenizer, what).setdefault(key, {})
    return known


def options_of(query: Query) -> tuple[Any, ...]:
    """The options of a query that its renderers may depend on, as values whose ``repr`` tells them apart."""
    processor = query.image_processor
    values = getattr(processor, "to_dict", None)
    images = type(processor).__name__, sorted(values().items(), key=repr) if callable(values) else repr(processor)
    kwargs = sorted(query.chat_template_kwargs.items())
    return query.thinking, query.thinking_retention, kwargs, images, query.template_bridge, query.date
