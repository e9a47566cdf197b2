"""``to_datum``: a training sequence as Tinker trains on it, shifted as upstream shifts."""

from __future__ import annotations

import dataclasses

import pytest
import real_tokenizers
import shapes
import supervised_oracle as oracle
from rllm_renderer_tinker.datum import to_datum
from rllm_renderer_training import supervised

from rllm_renderer_core import resolve

tinker = pytest.importorskip("tinker", reason="datums aren't proved: tinker isn't installed")
MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def example():
    why = real_tokenizers.missing(MODEL)
    if why:
        pytest.skip(why)
    renderer = resolve(MODEL, real_tokenizers.load(MODEL), backend="tinker", parity="off")
    messages, _ = oracle.CONVERSATIONS["tool cycle"]
    return supervised(renderer, messages, tools=shapes.TOOLS)[0]


def test_it_is_shifted_by_one(example):
    datum = to_datum(example)
    assert datum.model_input.to_ints() == example.token_ids[:-1]
    assert datum.loss_fn_inputs["target_tokens"].data == example.token_ids[1:]
    assert datum.loss_fn_inputs["weights"].data == example.weights[1:]


def test_it_is_cut_at_the_end_and_weighed(example):
    datum = to_datum(example, max_length=len(example.token_ids) - 3, reduction="mean")
    assert datum.model_input.to_ints() == example.token_ids[:-4]
    assert sum(datum.loss_fn_inputs["weights"].data) == pytest.approx(1.0)


def test_the_prompt_of_another_example_is_refused(example):
    other = tinker.ModelInput(chunks=[tinker.EncodedTextChunk(tokens=[1, 2, 3])])
    with pytest.raises(ValueError, match="other ids"):
        to_datum(dataclasses.replace(example, multi_modal_data=other))
    with pytest.raises(ValueError, match=r"isn't the tinker\.ModelInput"):
        to_datum(dataclasses.replace(example, multi_modal_data={"pixels": 1}))
