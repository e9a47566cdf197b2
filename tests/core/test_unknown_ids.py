"""Ids of a padded output layer: no token has them, fast tokenizers decode them to nothing, and a parse must say so."""

from __future__ import annotations

import pytest
import shapes
from parse_formats import FORMATS, GLM, TOOLS, served

from rllm_renderer_core.probing.text import Decoder


@pytest.mark.parametrize(("backend", "model", "call"), FORMATS[:6], ids=lambda each: getattr(each, "__name__", each))
def test_an_id_that_no_token_has_is_told(backend, model, call):
    resolved, tokenizer = served(backend, model)
    stop, unknown = resolved.get_stop_token_ids()[:1], len(tokenizer) + 3
    for text in ("why</think>a", f"why</think>{call(('path', '/t'))}"):
        ids = [*shapes.encode(tokenizer, text), *stop]
        assert resolved.parse_response(ids, tools=TOOLS).lossless
        out = resolved.parse_response([*ids[:-3], unknown, *ids[-3:]], tools=TOOLS)
        assert (out.lossless, out.loss) == (False, f"id {unknown} isn't in the vocabulary and has no text")
        assert not out.runnable


@pytest.mark.parametrize("model", [GLM, "google/gemma-4-E2B-it", "openai/gpt-oss-20b"])
def test_ids_that_are_parts_of_a_letter_or_a_space_are_no_such_ids(model):
    resolved, tokenizer = served("chat-template", model)
    head = shapes.encode(tokenizer, "why</think>") if model == GLM else []
    for text in (" \U0001f9d1\u200d\U0001f680 \u0f4c\u0f7c", "  a  ", "\u200b\ufeff\u0301", "\x00\x7f"):
        ids = shapes.encode(tokenizer, text)
        for size in range(1, len(ids) + 1):
            out = resolved.parse_response([*head, *ids[:size]])
            assert "vocabulary" not in (out.loss or ""), (text, size, out.loss)


def test_a_space_that_a_tokenizer_strips_is_no_such_id():
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    vocabulary = {"\u2581": 0, "a": 1, "<unk>": 2}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always")
    decoder = Decoder(transformers.PreTrainedTokenizerFast(tokenizer_object=plain), ())
    assert decoder.text([0]) == decoder.text([7]) == ""
    assert (decoder.unknown([0, 1]), decoder.unknown([0, 7, 1])) == (None, 7)
