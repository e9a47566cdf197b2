"""The example of the distribution's README runs as it stands, on a real vocabulary, with a sampler that follows a script."""

from __future__ import annotations

import pathlib
import re

from supervised_backends import on

README = pathlib.Path(__file__).parents[2] / "packages" / "rllm-renderer-training" / "README.md"


def test_the_readmes_example_runs_as_it_stands() -> None:
    served = on("Qwen/Qwen3-8B")
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    answers = iter(["<think>\n\n</think>\n\nFour.", "<think>\n\n</think>\n\nTwo."])

    def sample(prompt):
        ids = served.tokenizer.encode(next(answers), add_special_tokens=False)
        return [*ids, served.tokenizer.eos_token_id], [-0.5] * (len(ids) + 1), None  # vLLM's word for the end of the sequence

    names = {"tokenizer": served.tokenizer, "sample": sample}
    exec(block, names)
    batch, example = names["batch"], names["example"]
    trained = batch.input_ids[batch.loss_mask.astype(bool)].tolist()
    assert served.tokenizer.decode(trained).count("<|im_end|>") == 2 and set(batch.versions[0].tolist()) == {-1, 7, 8}
    columns = example.columns()
    assert served.tokenizer.decode(
        [t for t, kept in zip(columns["input_ids"], columns["assistant_masks"], strict=True) if kept]
    ) == ("<think>\n\n</think>\n\nTwo.<|im_end|>")
