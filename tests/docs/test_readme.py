"""The README's loop runs as it stands, on a real vocabulary, with a sampler that follows a script."""

from __future__ import annotations

import pathlib
import re

import pytest
import real_tokenizers

README = pathlib.Path(__file__).parents[2] / "README.md"
MODEL = "Qwen/Qwen3-8B"
CALL = '<think>\nSure.\n</think>\n\n<tool_call>\n{"name": "thermometer", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'
ANSWER = "<think>\nCold.\n</think>\n\nThree degrees.<|im_end|>"
TOOL = {"type": "function", "function": {"name": "thermometer", "parameters": {"properties": {"city": {"type": "string"}}}}}


def test_the_loop_of_the_readme_trains_on_one_segment():
    pytest.importorskip("rllm_renderer_prime", reason="not proved: rllm-renderer-prime isn't installed")
    why = real_tokenizers.missing(MODEL)
    if why:
        pytest.skip(why)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (loop,) = [block for block in blocks if "Rollout(renderer)" in block]
    tokenizer = real_tokenizers.load(MODEL)
    script, prompts, ran, trained = [CALL, ANSWER], [], [], []

    def sample(prompt, stop):
        prompts.append(prompt)
        ids = tokenizer.encode(script[len(prompts) - 1], add_special_tokens=False)
        assert ids[-1] in stop
        return ids[:-1], [-0.5] * (len(ids) - 1), ids[-1]

    def run(call):
        ran.append((call.name, call.arguments))
        return {"role": "tool", "tool_call_id": call.id, "content": "3"}

    exec(loop, {"tokenizer": tokenizer, "tools": [TOOL], "sample": sample, "run": run, "train": trained.extend})
    assert ran == [("thermometer", {"city": "Oslo"})]
    (segment,) = trained
    first, second = prompts
    completion = tokenizer.encode(CALL, add_special_tokens=False)
    assert second[: len(first) + len(completion)] == first + completion
    assert segment.token_ids == second + tokenizer.encode(ANSWER, add_special_tokens=False)
