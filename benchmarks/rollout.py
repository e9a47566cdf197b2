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
from rllm_renderer_training import Rollout

from rllm_renderer_core import resolve
from rllm_renderer_core.normal_form.ids import IdsView

BUDGET_EXTEND, BUDGET_FORK, BUDGET_SEAM = 1.3, 5.0, 1.2
NEW = [{"role": "tool", "content": "Two barges."}, {"role": "user", "content": "And at noon?"}]
CALL = {"id": "call00000", "type": "function", "function": {"name": "look", "arguments": '{"q": "alpha1"}'}}
SMALL = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "ping"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {**NEW[0], "name": "look", "tool_call_id": "call00000"},
    NEW[1],
]


def started(renderer: Any, tokenizer: Any, size: int) -> tuple[Rollout, list[int]]:
    history, turn, _ = run.conversation(tokenizer, size)
    rollout = Rollout(renderer)
    prompt = rollout.begin(history)
    return rollout, renderer.render_ids([*history, turn])[len(prompt) : -1]


def extended(rollout: Rollout, completion: list[int]) -> float:
    """Seconds of CPU of one ``extend``, behind one ``record``."""
    rollout.record(completion)
    start = time.process_time()
    rollout.extend(NEW)
    return time.process_time() - start


def against_a_render(renderer: Any, ids: list[int], rounds: int) -> tuple[float, float]:
    """Seconds of CPU of the backend's bridge behind these ids, and of a render of its messages; the fastest, in turns."""
    history, sampled = IdsView(ids), [*ids[:3], renderer.get_stop_token_ids()[-1]]
    new, turn = SMALL[3:], SMALL[2]
    times = []
    for _ in range(rounds):
        start = time.process_time()
        renderer.upstream.bridge_to_next_turn(history, sampled, new, previous_message=turn)
        middle = time.process_time()
        renderer.upstream.render_ids(SMALL, add_generation_prompt=True)
        times.append((middle - start, time.process_time() - middle))
    return min(a for a, _ in times), min(b for _, b in times)


def measure(table: run.Table, tokenizer: Any, rounds: int, **options: Any) -> None:
    renderer = resolve(run.MODEL, tokenizer, **options)
    short, long = started(renderer, tokenizer, 1_000), started(renderer, tokenizer, 80_000)
    times = [(extended(*short), extended(*long)) for _ in range(rounds)]
    assert not short[0].declines and not long[0].declines, (short[0].declines, long[0].declines)
    few, many = min(a for a, _ in times), min(b for _, b in times)
    kept = many <= BUDGET_EXTEND * few or renderer.backend == "prime"
    budget = "upstream needs the list" if renderer.backend == "prime" else f"at most {BUDGET_EXTEND}x"
    table.add(f"{renderer.backend}: extend at 80,000 ids, against 1,000", many, few, many / few, budget, kept=kept)
    if renderer.backend != "prime":
        bridged, small = against_a_render(renderer, long[0].prompt_ids, rounds)
        what = f"{renderer.backend}: the seam's bridge of 80,000 ids, against a render of the same messages behind a short turn"
        table.add(what, bridged, small, bridged / small, f"at most {BUDGET_SEAM}x", kept=bridged <= BUDGET_SEAM * small)
        table.add(f"{renderer.backend}: extend at 80,000 ids, against that render", many, small, many / small, "-", kept=True)
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
