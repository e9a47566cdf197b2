"""The example of the distribution's README runs as it stands, on a real vocabulary, with a sampler that follows a script."""

from __future__ import annotations

import pathlib
import re

import pytest
from supervised_backends import on

README = pathlib.Path(__file__).parents[2] / "packages" / "rllm-renderer-verl" / "README.md"


def test_the_readmes_example_runs_as_it_stands() -> None:
    pytest.importorskip("torch", reason="torch isn't installed: verl's layout isn't proven")
    served = on("Qwen/Qwen3-8B")
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    answers = iter(["Four.", "Five.", "I see four.", "None."])

    def sample(prompt):
        ids = served.tokenizer.encode(f"<think>\n\n</think>\n\n{next(answers)}<|im_end|>", add_special_tokens=False)
        return ids, [-0.5] * len(ids)

    names = {"tokenizer": served.tokenizer, "sample": sample}
    exec(block, names)
    tensors = names["batch"].tensors
    trained = [row[mask.bool()] for row, mask in zip(tensors["responses"], tensors["response_mask"], strict=True)]
    texts = [served.tokenizer.decode(ids) for ids in trained]
    assert texts[2] == "<think>\n\n</think>\n\nI see four.<|im_end|>" and len(texts) == 4
    assert tensors["rollout_log_probs"][tensors["response_mask"].bool()].unique().tolist() == [-0.5]
