"""One vocabulary: a passed tokenizer that isn't upstream's is refused with the first difference, whatever it is called."""

from __future__ import annotations

import copy

import pytest
import tml_oracle as oracle

import rllm_renderer_core as core

QWEN3 = "Qwen/Qwen3-8B"


def test_the_models_own_tokenizer_is_accepted_under_any_name():
    import real_tokenizers

    oracle.tokenizer(QWEN3)
    renamed = real_tokenizers.load(QWEN3, name_or_path="ckpt-step-40")
    assert core.resolve("me/finetune", renamed, backend="tml", renderer="Qwen3", parity="off").backend == "tml"


@pytest.mark.parametrize(
    "renderer, model",
    [
        ("Qwen3", "Qwen/Qwen3.5-9B"),
        ("DeepSeekV4", "deepseek-ai/DeepSeek-V3"),
        ("Glm52", QWEN3),
    ],
)
def test_a_tokenizer_of_another_checkpoint_is_refused(renderer, model):
    with pytest.raises(core.TokenizerError, match=r"isn't the vocabulary of tml_renderers.*(there|here)"):
        core.resolve(model, oracle.tokenizer(model), backend="tml", renderer=renderer, parity="off")


@pytest.mark.parametrize("special", [True, False], ids=["control token", "ordinary token"])
def test_an_added_token_is_refused_and_named(special):
    tokenizer = copy.deepcopy(oracle.tokenizer(QWEN3))
    tokenizer.add_tokens(["<|mine|>"], special_tokens=special)
    with pytest.raises(core.TokenizerError, match="mine"):
        core.resolve(QWEN3, tokenizer, backend="tml", parity="off")


def _without_a_merge(model, token="Ġapples"):
    model["merges"] = [merge for merge in model["merges"] if "".join(merge) != token]


def _resized(model):
    """Without its last ordinary token."""
    _without_a_merge(model, model["vocab"].popitem()[0])


@pytest.mark.parametrize(
    "change, difference", [(_without_a_merge, "How many apples"), (_resized, "id 151643 is")], ids=["a merge less", "resized"]
)
def test_a_changed_vocabulary_is_refused_with_the_difference(change, difference):
    import json

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    data = json.loads(oracle.tokenizer(QWEN3).backend_tokenizer.to_str())
    change(data["model"])
    changed = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(data)), name_or_path=QWEN3)
    with pytest.raises(core.TokenizerError, match=difference):
        core.resolve(QWEN3, changed, backend="tml", parity="off")
