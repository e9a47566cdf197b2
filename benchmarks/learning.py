"""What learning a chat template costs: seconds of one parser, learned once a tokenizer, beside the budget of half a second.

Run it where the tests run: ``.venv-test/bin/python benchmarks/learning.py``. Seconds are of the process, the best of three.
"""

from __future__ import annotations

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))

import real_tokenizers
from rllm_renderer_template import LearnedParser

from rllm_renderer_core import resolve
from rllm_renderer_core.normal_form.tokenizer import control_ids, special_ids

BUDGET = 0.5
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "zai-org/GLM-5", "meta-llama/Llama-3.1-8B-Instruct", "MiniMaxAI/MiniMax-M3")


def seconds(model: str) -> float:
    tokenizer = real_tokenizers.load(model)
    render = resolve(model, tokenizer, backend="chat-template", parity="off").render_ids
    times = []
    for _ in range(3):
        parser = LearnedParser(
            render, tokenizer.decode, [tokenizer.eos_token_id], control_ids(tokenizer), special_ids(tokenizer)
        )
        start = time.process_time()
        assert parser.parses_tool_calls, parser.why_no_tool_calls
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    for model in MODELS:
        why = real_tokenizers.missing(model)
        print(f"{model:40}", why or f"{seconds(model):.2f} s of {BUDGET} s")
