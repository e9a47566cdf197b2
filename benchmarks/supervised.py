"""What ``supervised`` costs: against one ``apply_chat_template`` of the same conversations, by turns, rows and processes.

    python benchmarks/supervised.py [--rows N]

Run it where the tests run. Each figure is a ratio within one run: of CPU time but for the last row, where two processes work.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import run  # the table, and the path to the tests' vocabularies
from rllm_renderer_training import supervised

from rllm_renderer_core import resolve

PLAIN, THINKING = "Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-8B"
BUDGET, BUDGET_GROWTH = 1.5, 1.5


def conversation(
    turns: int, *, size: int, number: int = 0, thinking: bool = False, calls: bool = False
) -> list[dict[str, Any]]:
    """``turns`` assistant turns of about ``size`` ids, each behind a question, or behind a call's result."""
    text = " ".join(f"word{number * 7 + at}" for at in range(size // 3))
    out: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Question {number}: {text}"},
    ]
    for turn in range(turns):
        message: dict[str, Any] = {"role": "assistant", "content": f"Answer {turn}: {text}"}
        if thinking:
            message["reasoning_content"] = f"Thought {turn}: {text}"
        if calls and turn < turns - 1:
            message["tool_calls"] = [
                {"id": f"c{turn}", "type": "function", "function": {"name": "look", "arguments": {"q": text}}}
            ]
            out += [message, {"role": "tool", "tool_call_id": f"c{turn}", "content": f"Result {turn}: {text}"}]
        else:
            out += [message, *([{"role": "user", "content": f"And {turn}? {text}"}] if turn < turns - 1 else [])]
    return out


def cpu(work: Callable[[], Any], rounds: int) -> float:
    """The least CPU seconds of this process, over some rounds."""
    found = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def template_ids(tokenizer: Any, messages: list[dict[str, Any]]) -> list[int]:
    return list(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False))


def against_the_template(table: run.Table, backend: str, rounds: int) -> None:
    tokenizer = run.real_tokenizers.load(PLAIN)
    renderer = resolve(PLAIN, tokenizer, backend=backend, parity="off")
    for turns, size in ((1, 200), (4, 60), (4, 300), (20, 200)):
        rows = [conversation(turns, size=size, number=number) for number in range(8)]
        assert all(len(supervised(renderer, row)) == 1 for row in rows)  # and the kinds of turns are known from here on
        ours = cpu(lambda rows=rows: [supervised(renderer, row) for row in rows], rounds)
        theirs = cpu(lambda rows=rows: [template_ids(tokenizer, row) for row in rows], rounds)
        own = backend == "chat-template"
        # Sequences say which message each id is of: where the backend tells that, its render with that is what is compared.
        once = renderer.render_ids if own else renderer.render
        render = cpu(lambda rows=rows, once=once: [once(row) for row in rows], rounds)
        ids = sum(len(template_ids(tokenizer, row)) for row in rows)
        what = f"{backend}: {turns} turns of {size} ids, {ids / ours:,.0f} ids/s"
        # An upstream may take longer than the template for one render: that isn't this layer's.
        kept, budget = ours <= BUDGET * theirs or not own, f"at most {BUDGET}x" if own else "-"
        table.add(f"{what}, against one apply_chat_template", ours, theirs, ours / theirs, budget, kept=kept)
        table.add(
            f"{what}, against one render", ours, render, ours / render, f"at most {BUDGET}x", kept=ours <= BUDGET * render
        )


def by_turns(table: run.Table, backend: str, rounds: int) -> None:
    """CPU seconds an id written, of a tool cycle with reasoning in each turn: one sequence, however long."""
    tokenizer = run.real_tokenizers.load(THINKING)
    renderer = resolve(THINKING, tokenizer, backend=backend, parity="off")
    costs = []
    for turns in (5, 40):
        row = conversation(turns, size=100, thinking=True, calls=True)
        written = sum(len(each.token_ids) for _ in range(3) for each in supervised(renderer, row)) / 3
        costs.append(cpu(lambda row=row: supervised(renderer, row), rounds) / written)
    few, many = costs
    what = f"{backend}: an id of a thinking tool cycle of 40 turns, against one of 5 turns"
    table.add(what, many, few, many / few, f"at most {BUDGET_GROWTH}x", kept=many <= BUDGET_GROWTH * few)


def in_bulk(table: run.Table, rows: int) -> None:
    """Memory by rows, and two processes against one."""
    import resource

    import datasets
    from rllm_renderer_training.bulk.build import build
    from rllm_renderer_training.bulk.mapper import SupervisedMapper

    datasets.disable_progress_bars()
    mapper = SupervisedMapper(PLAIN, options={"backend": "chat-template", "parity": "off"}, load=run.real_tokenizers.load)
    seconds: list[float] = []
    peaks: list[int] = []  # resident kB after each shard
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "rows.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for number in range(rows):
                file.write(json.dumps({"messages": conversation(2, size=30, number=number)}) + "\n")
        for processes in (1, 2):
            start = time.perf_counter()
            build(
                source,
                pathlib.Path(folder) / f"out{processes}",
                mapper,
                processes=processes,
                shard_rows=max(1, rows // 5),
                tell=lambda _: peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
            )
            seconds.append(time.perf_counter() - start)
    first, last = peaks[1], peaks[4]
    what = f"bulk: peak memory after {rows:,} rows, against {rows * 2 // 5:,}"
    kept = "at most 1.2x" if last <= 1.2 * first else "at most 1.2x MISSED"
    table.rows.append((what, f"{last / 1e3:,.0f} MB", f"{first / 1e3:,.0f} MB", f"{last / first:.2f}x", kept))
    one, two = seconds
    table.add(f"bulk: {rows:,} rows, two processes against one", two, one, two / one, "at most 0.8x", kept=two <= 0.8 * one)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rows", type=int, default=20_000, help="of the bulk run; 100000 for the whole one")
    options = arguments.parse_args()
    table = run.Table()
    for backend in ("chat-template", "prime"):
        against_the_template(table, backend, options.rounds)
        by_turns(table, backend, options.rounds)
    in_bulk(table, options.rows)
    print(table)


if __name__ == "__main__":
    main()
