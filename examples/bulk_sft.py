"""Many conversations to training sequences: each assistant turn behind the very prompt that it will be sampled from.

    python examples/bulk_sft.py conversations.jsonl > sequences.jsonl

Each line in is ``{"messages": [...], "tools": [...]}``, each line out a sequence with ``input_ids``, ``labels`` and masks.
Without a file it makes some of its own. What can't be used is said on stderr, with its line, and the rest goes on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import scripted_model
from rllm_renderer_training.sequences.supervised import supervised

from rllm_renderer_core import RendererError, resolve


def made_up() -> Iterator[dict[str, Any]]:
    for number in range(100):
        call = {"id": "c0", "type": "function", "function": {"name": "thermometer", "arguments": '{"city": "Oslo"}'}}
        yield {
            "tools": scripted_model.TOOLS,
            "messages": [
                {"role": "user", "content": f"How warm is it in Oslo? ({number})"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c0", "content": str(number)},
                {"role": "assistant", "content": f"It is {number} degrees."},
            ],
        }


def read(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        yield from map(json.loads, file)


def main() -> None:
    renderer = resolve(scripted_model.MODEL, scripted_model.tokenizer(), thinking=False)
    lines = read(sys.argv[1]) if len(sys.argv) > 1 else made_up()
    count = trained = 0
    for number, line in enumerate(lines, 1):
        try:
            examples = supervised(renderer, line["messages"], tools=line.get("tools"))
        except (RendererError, KeyError) as error:
            print(f"line {number}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        for example in examples:
            columns = example.columns()
            count, trained = count + 1, trained + sum(columns["assistant_masks"])
            print(json.dumps(columns))
    print(f"{count} sequences, {trained} ids trained", file=sys.stderr)


if __name__ == "__main__":
    main()
