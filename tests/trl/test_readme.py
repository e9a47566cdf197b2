"""The example of the distribution's README runs as it stands, on a real vocabulary, with a sampler that follows a script."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
import real_tokenizers
from tiny_trainer import scripted, sum_of_two, tiny_model

from rllm_renderer_core import resolve

ROOT = pathlib.Path(__file__).parents[2]
MODELS = real_tokenizers.here("Qwen/Qwen3-8B")


@pytest.mark.needs("trl")
@pytest.mark.parametrize("model", MODELS)
def test_the_readmes_example_runs_as_it_stands(model, tmp_path):
    from datasets import Dataset
    from trl import GRPOConfig

    readme = ROOT / "packages" / "rllm-renderer-trl" / "README.md"
    (block,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    tokenizer = real_tokenizers.load(model)
    rows = [{"prompt": [{"role": "user", "content": "What is 1 + 2?"}]}] * 2
    sizes = {"per_device_train_batch_size": 2, "num_generations": 2, "use_cpu": True, "bf16": False, "report_to": []}
    names = {
        "tokenizer": tokenizer,
        "model": tiny_model(tokenizer, hidden_size=8, num_hidden_layers=1),
        "args": GRPOConfig(str(tmp_path), **sizes),
        "dataset": Dataset.from_list(rows),
    }
    exec(block, names)
    with scripted(names["model"], sum_of_two(resolve(tokenizer=tokenizer))):
        names["trainer"]._generate_and_score_completions(rows)
    assert names["trainer"]._metrics["train"]["reward"] == [1.0]


@pytest.mark.needs("trl", "trl-steps")
@pytest.mark.whole
@pytest.mark.parametrize("model", MODELS)
def test_the_example_takes_two_steps(model):
    command = [sys.executable, ROOT / "examples" / "trl_grpo.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(steps) == 2 and all("rollout/segments 1.00" in line and "tool_calls 0.00" not in line for line in steps)


def test_importing_it_loads_neither_trl_nor_torch():
    command = [sys.executable, "-c", "import rllm_renderer_trl, sys; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "rllm_renderer_trl.rollout_func" in loaded and not {"trl", "torch", "transformers", "accelerate"} & {*loaded}
