"""Inkling's tokenizer: OpenAI's public vocabulary, as gpt-oss has it, with the control tokens by which upstream names them."""

from __future__ import annotations

import functools
import importlib.util
import json
from typing import Any

import real_tokenizers

MODEL = "thinkingmachines/Inkling"


def missing() -> str | None:
    """Why it can't be made, or compared with ``renderers``' Inkling."""
    for package in ("tml_renderers", "renderers"):
        if importlib.util.find_spec(package) is None:
            return f"not proved for {MODEL}: {package} isn't installed"
    return real_tokenizers.missing("openai/gpt-oss-20b")


@functools.cache
def tokenizer() -> Any:
    from tml_renderers import tokenizers
    from transformers import PreTrainedTokenizerFast

    upstream = tokenizers.O200kBaseChatTokenizer()
    control = {int(upstream.encode_special(name)) for name in upstream.special_tokens()}
    data = json.loads(real_tokenizers.vocabulary("openai/gpt-oss-20b"))
    others = {added["content"] for added in data["added_tokens"]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    data["added_tokens"] = [{"id": token, "content": upstream.decode([token]), **flags} for token in sorted(control)]
    data["model"]["vocab"] = {text: token for text, token in data["model"]["vocab"].items() if text not in others}
    return PreTrainedTokenizerFast(
        tokenizer_object=real_tokenizers._Copied(json.dumps(data)),
        name_or_path=MODEL,
        eos_token="<|content_model_end_sampling|>",
        clean_up_tokenization_spaces=False,
    )
