"""One table of what this layer costs, as ratios in one run, beside the budgets.

Run it where the tests run (``make bench``): it needs rllm-renderer-prime, transformers and the vocabularies. Rows of backends
that aren't installed are left out. Only the ratios mean something on another machine.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))

import real_tokenizers
import shapes

from rllm_renderer_core import resolve

MODEL = "Qwen/Qwen3-8B"
SIZES = (1_000, 20_000, 80_000)
TEXT = "The lamp was lit at dusk, the log was signed, and 3 ships passed the cape before midnight (wind NW, 14 kn).\n"
COLD_SELECT = """
import sys
from rllm_renderer_core import select_backend
select_backend("nobody/knows-this")
assert not {"torch", "transformers"} & set(sys.modules), "a cold select imports torch or transformers"
"""


def seconds(function: Callable[[], object], repeat: int) -> float:
    """Of the fastest of ``repeat`` calls, after one that warms caches."""
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def versus(ours: Callable[[], object], theirs: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Seconds of both, measured in turns so that a change of the machine's pace meets both."""
    rounds = [(seconds(ours, repeat), seconds(theirs, repeat)) for _ in range(3)]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def alternating(ours: Callable[[], object], theirs: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Seconds of the processor of both, call by call in turns: for ratios so near to 1 that a busy machine hides them."""
    times: tuple[list[float], list[float]] = ([], [])
    for at in range(2 * repeat + 2):
        start = time.process_time()
        (ours, theirs)[at % 2]()
        times[at % 2].append(time.process_time() - start)
    return min(times[0]), min(times[1])


def process(code: str) -> float:
    """Seconds of a fresh interpreter, median of seven."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def conversation(tokenizer: Any, size: int) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
    """An agent's run of about ``size`` ids: the history, the turn that was sampled last, and what follows it."""
    per_step = len(shapes.encode(tokenizer, TEXT * 8)) + 60
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Keep the log."}, shapes.user("Which ships passed?")]
    for step in range(max(1, size // per_step)):
        call = shapes.call("look", f"c{step}", f"night {step}")
        messages.append({"role": "assistant", "content": TEXT * 2, "tool_calls": [call]})
        messages.append(shapes.result("look", f"c{step}", TEXT * 6))
    return (
        messages,
        {"role": "assistant", "content": "", "tool_calls": [shapes.call("look", "last")]},
        [
            shapes.result("look", "last", "Two barges."),
            shapes.user("And at noon?"),
        ],
    )


class Table:
    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str, str]] = []

    def add(self, what: str, ours: float, theirs: float, ratio: float, budget: str, *, kept: bool) -> None:
        def show(value: float) -> str:
            return f"{value * 1e6:,.0f} us" if value < 0.01 else f"{value * 1e3:,.0f} ms"

        self.rows.append((what, show(ours), show(theirs), f"{ratio:.2f}x", f"{budget}{'' if kept else ' MISSED'}"))

    def __str__(self) -> str:
        lines = ["| what | ours | the other | ratio | budget |", "|---|---|---|---|---|"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.rows)])


def start_up(table: Table) -> None:
    bare = process("pass")
    core, upstream = process("import rllm_renderer_core") - bare, process("import renderers") - bare
    table.add(
        "import, against `import renderers`", core, upstream, core / upstream, "at most 0.10x", kept=core <= upstream / 10
    )
    cold = process(COLD_SELECT) - bare
    what = "cold select of an unknown model, against `import renderers`"
    table.add(what, cold, upstream, cold / upstream, "no torch, no transformers", kept=True)


def prime(table: Table, tokenizer: Any, repeat: int) -> None:
    import renderers
    from renderers.configs import Qwen3RendererConfig

    ours = resolve(MODEL, tokenizer, backend="prime")
    direct = renderers.create_renderer(tokenizer, Qwen3RendererConfig(thinking_retention="all"))
    for size in SIZES:
        history, turn, new = conversation(tokenizer, size)
        prompt = ours.render_ids(history, add_generation_prompt=True)
        sampled = ours.render_ids([*history, turn])[len(prompt) : -1]
        label = f"{len(prompt):,} ids"
        a, b = versus(
            lambda h=history: ours.render_ids(h, add_generation_prompt=True),
            lambda h=history: direct.render_ids(h, add_generation_prompt=True),
            repeat,
        )
        table.add(f"prime render_ids, {label}, against `renderers`", a, b, a / b, "at most 1.05x", kept=a <= 1.05 * b)
        a, b = versus(
            lambda p=prompt, c=sampled, n=new: ours.bridge_to_next_turn(p, c, n),
            lambda p=prompt, c=sampled, n=new: direct.bridge_to_next_turn(p, c, n),
            repeat,
        )
        limit, budget = (1.30, "at most 1.30x") if size == SIZES[-1] else (1.10, "at most 1.10x or +50 us")
        table.add(f"prime bridge, {label}, against `renderers`", a, b, a / b, budget, kept=a <= max(limit * b, b + 50e-6))
        full = seconds(lambda h=history, t=turn, n=new: ours.render_ids([*h, t, *n], add_generation_prompt=True), 3)
        kept = size != SIZES[-1] or full >= 80 * a
        table.add(f"full re-render, {label}, against the prime bridge", full, a, full / a, "at least 80x at 80k", kept=kept)


def seam(table: Table, tokenizer: Any, repeat: int, **options: Any) -> None:
    ours = resolve(MODEL, tokenizer, **options)
    name = f"seam over {ours.backend}"
    for size in SIZES:
        history, turn, new = conversation(tokenizer, size)
        prompt = ours.render_ids(history, add_generation_prompt=True)
        sampled = ours.render_ids([*history, turn])[len(prompt) : -1]
        label = f"{len(prompt):,} ids"
        short = [{"role": "system", "content": "s"}, shapes.user("ping"), turn, *new]
        a, b = versus(
            lambda p=prompt, c=sampled, n=new, t=turn: ours.bridge_to_next_turn(p, c, n, previous_message=t),
            lambda s=short: ours.render_ids(s, add_generation_prompt=True),
            repeat,
        )
        copied = seconds(lambda p=prompt, c=sampled: _copy(p, c), repeat)
        what = f"{name}, bridge, {label}, against one small render"
        table.add(what, a, b, a / b, "at most 1.5x and the copy", kept=a <= 1.5 * b + copied)
        full = seconds(lambda h=history, t=turn, n=new: ours.render_ids([*h, t, *n], add_generation_prompt=True), 3)
        kept = size != SIZES[-1] or full >= 40 * a
        table.add(f"full re-render, {label}, against the seam bridge", full, a, full / a, "at least 40x at 80k", kept=kept)


def literal(table: Table, tokenizer: Any, repeat: int) -> None:
    """``marker_text="literal"`` on text that spells no control token."""
    for backend in ("prime", "chat-template"):
        plain, guarded = (resolve(MODEL, tokenizer, backend=backend, marker_text=mode) for mode in ("allow", "literal"))
        for size in (*SIZES[:2], 90_000):
            history, _, _ = conversation(tokenizer, size)
            a, b = alternating(
                lambda h=history: guarded.render_ids(h, add_generation_prompt=True),  # noqa: B023
                lambda h=history: plain.render_ids(h, add_generation_prompt=True),  # noqa: B023
                repeat if size > SIZES[0] else 10 * repeat,
            )
            ids = len(plain.render_ids(history, add_generation_prompt=True))
            what = f"{backend} render_ids with literal text, {ids:,} ids, against without"
            table.add(what, a, b, a / b, "at most 1.05x", kept=a <= 1.05 * b)


def _copy(prompt: list[int], sampled: list[int]) -> bool:
    """What any bridge has to do with the ids: copy them in, join them, check them, and mark them."""
    joined = list(prompt) + list(sampled)
    mask: list[bool | None] = [None] * len(joined)
    return joined[: len(prompt)] == prompt and bool([*mask, False])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeat", type=int, default=30)
    arguments.add_argument("--only", choices=["literal"], help="these rows alone")
    given = arguments.parse_args()
    repeat = given.repeat
    table = Table()
    if given.only == "literal":
        literal(table, real_tokenizers.load(MODEL), repeat)
        print(table)
        return
    start_up(table)
    tokenizer = real_tokenizers.load(MODEL)
    prime(table, tokenizer, repeat)
    seam(table, tokenizer, repeat, backend="chat-template")
    literal(table, tokenizer, repeat)
    try:
        seam(table, tokenizer, repeat, backend="tinker", renderer="qwen3", parity="off")
    except Exception as error:  # not installed here: the row is left out, and says so
        print(f"left out: tinker ({type(error).__name__})")
    print(table)


if __name__ == "__main__":
    main()
