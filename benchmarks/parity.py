"""What parity costs: resolving with and without the check, and detection over every family of prime, in one run.

Run it where the tests run. The budget is half a second for prime; seconds are of the fastest of several runs, each on a
tokenizer of which nothing is remembered, and then again on one of which all is.
"""

from __future__ import annotations

import copy
import pathlib
import sys
import time
import warnings
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))

import real_tokenizers

from rllm_renderer_core import resolve

MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "zai-org/GLM-5.1", "google/gemma-4-E2B-it")
BUDGET = 0.5
ROUNDS = 5


def fastest(model: str | None, tokenizer: Any, *, fresh: bool, **options: Any) -> float:
    """Seconds of a resolve, on a tokenizer of which nothing is remembered where ``fresh``."""
    times = []
    resolve(model, tokenizer, **options)
    for _ in range(ROUNDS):
        once = copy.copy(tokenizer) if fresh else tokenizer
        start = time.perf_counter()
        resolve(model, once, **options)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"{'model':26} {'off':>8} {'checked':>8} {'again':>8} {'detected':>9} {'again':>8}   seconds, budget {BUDGET}")
    kept = True
    for model in MODELS:
        named = real_tokenizers.load(model)
        hidden = real_tokenizers.load(model, name_or_path="ckpt-step-40")
        row = (
            fastest(model, named, fresh=True, parity="off"),
            fastest(model, named, fresh=True),
            fastest(model, named, fresh=False),
            fastest(None, hidden, fresh=True),
            fastest(None, hidden, fresh=False),
        )
        kept = kept and max(row) < BUDGET
        print(f"{model:26} {row[0]:8.4f} {row[1]:8.4f} {row[2]:8.4f} {row[3]:9.4f} {row[4]:8.4f}")
    print("kept" if kept else "NOT KEPT")


if __name__ == "__main__":
    main()
