"""What a rollout costs by the length of its history: ``extend`` at 80,000 ids against 1,000, and ``fork`` against a list copy.

Run it where the tests run. ``extend`` returns the prompt as a list, which is one copy of it: the row beneath says what that
copy is.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import run  # the table, and the path to the tests' vocabularies

from rllm_renderer_core import Rollout, resolve

BUDGET_EXTEND, BUDGET_FORK = 1.3, 5.0
NEW = [{"role": "tool", "content": "Two barges."}, {"role": "user", "content": "And at noon?"}]


def started(renderer: Any, tokenizer: Any, size: int) -> tuple[Rollout, list[int]]:
    history, turn, _ = run.conversation(tokenizer, size)
    rollout = Rollout(renderer)
    prompt = rollout.begin(history)
    return rollout, renderer.render_ids([*history, turn])[len(prompt) : -1]


def extended(rollout: Rollout, completion: list[int]) -> float:
    """Seconds of one ``extend``, behind one ``record``."""
    rollout.record(completion)
    start = time.perf_counter()
    rollout.extend(NEW)
    return time.perf_counter() - start


def measure(table: run.Table, tokenizer: Any, rounds: int, **options: Any) -> None:
    renderer = resolve(run.MODEL, tokenizer, **options)
    short, long = started(renderer, tokenizer, 1_000), started(renderer, tokenizer, 80_000)
    times = [(extended(*short), extended(*long)) for _ in range(rounds)]
    assert not short[0].declines and not long[0].declines, (short[0].declines, long[0].declines)
    few, many = min(a for a, _ in times), min(b for _, b in times)
    kept = many <= BUDGET_EXTEND * few or renderer.backend == "prime"
    budget = "upstream needs the list" if renderer.backend == "prime" else f"at most {BUDGET_EXTEND}x"
    table.add(f"{renderer.backend}: extend at 80,000 ids, against 1,000", many, few, many / few, budget, kept=kept)
    probe = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "ping"},
        {"role": "assistant", "content": "alpha1"},
    ]
    small = run.seconds(lambda: renderer.render_ids([*probe, NEW[1]], add_generation_prompt=True), 30)
    table.add(
        f"{renderer.backend}: extend at 80,000 ids, against one small render",
        many,
        small,
        many / small,
        "at most 1.2x",
        kept=many <= 1.2 * small,
    )
    ids = long[0].prompt_ids
    copied = run.seconds(lambda: list(ids), 30)
    table.add("of that, the list that it returns, against extend at 1,000", copied, few, copied / few, "-", kept=True)
    forked = run.seconds(long[0].fork, 30)
    kept = forked <= BUDGET_FORK * copied
    table.add(
        f"fork at {len(ids):,} ids, against a list copy", forked, copied, forked / copied, f"at most {BUDGET_FORK}x", kept=kept
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=60)
    rounds = arguments.parse_args().rounds
    table = run.Table()
    tokenizer = run.real_tokenizers.load(run.MODEL)
    everywhere: list[dict[str, Any]] = [
        {"backend": "chat-template", "template_bridge": True},
        {"backend": "tinker", "renderer": "qwen3", "parity": "off"},
        {"backend": "prime"},
    ]
    for options in everywhere:
        try:
            measure(table, tokenizer, rounds, **options)
        except Exception as error:  # not installed here: the row is left out, and says so
            print(f"left out: {options['backend']} ({type(error).__name__}: {error})", file=sys.stderr)
    print(table)


if __name__ == "__main__":
    main()
