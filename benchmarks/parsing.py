"""What the parse contract costs: a checked parse beside the backend's own parse and one small render, as ratios in one run.

Run it where the tests run (``make bench``). The budget is 1.5 times both together. Times are of the process, each the least of
many calls of all three in turns, so that what else the machine does counts little; only the ratios mean something.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import real_tokenizers
import shapes

from rllm_renderer_core import resolve
from rllm_renderer_core.errors import RendererError

BUDGET = 1.5
MODELS = {
    "Qwen/Qwen3-8B": "prime tinker chat-template",
    "Qwen/Qwen3.5-9B": "prime tinker chat-template",
    "zai-org/GLM-5.1": "prime fireworks chat-template",
    "deepseek-ai/DeepSeek-V4-Flash": "fireworks tml",
    "MiniMaxAI/MiniMax-M3": "minimax-m3",
}
REPEAT = 400
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks something up.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }
]
TURN = {
    "role": "assistant",
    "content": "The log of the second night is missing.",
    "reasoning_content": "Three ships passed the cape. " * 20,
    "tool_calls": [shapes.call("look", "c1", "night 2"), shapes.call("look", "c2", "a quay, and 3 lamps")],
}


def least(*functions: Callable[[], object]) -> list[float]:
    """Seconds of the process that each takes at least, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(REPEAT):
        for function, found in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            found.append(time.process_time() - start)
    return [min(found) for found in times]


def row(model: str, backend: str) -> str:
    """One line of the table; raises where the backend isn't installed."""
    tokenizer = real_tokenizers.load(model)
    ours = resolve(model, tokenizer, backend=backend, parity="off")
    question = [shapes.user("Which ships passed?")]
    prompt = ours.render_ids(question, tools=TOOLS, add_generation_prompt=True)
    turn = list(ours.render_ids([*question, TURN], tools=TOOLS))
    shared = next((at for at, (a, b) in enumerate(zip(prompt, turn, strict=False)) if a != b), len(prompt))
    stops = set(ours.get_stop_token_ids())
    end = next((at for at in range(len(turn) - 1, shared, -1) if turn[at] in stops), None)
    ids, prompt = turn[shared:] if end is None else turn[shared : end + 1], turn[:shared]
    out = ours.parse_response(ids, tools=TOOLS, prompt_ids=prompt)
    small = [question[0], {"role": "assistant", "content": "", "tool_calls": TURN["tool_calls"]}]

    def parse() -> Any:
        return ours.upstream.parse_response(ids, tools=TOOLS, prompt_ids=prompt)

    checked, alone, render = least(
        lambda: ours.parse_response(ids, tools=TOOLS, prompt_ids=prompt), parse, lambda: ours.upstream.render_ids(small)
    )
    bare = alone + render
    runnable = f"{len(out.runnable)} calls, {'lossless' if out.lossless else out.loss}"
    verdict = "ok" if checked / bare <= BUDGET else "OVER"
    return (
        f"{model} {backend}: {len(ids)} ids, {runnable}; parse alone {alone * 1e6:.0f} us, small render "
        f"{render * 1e6:.0f} us, checked {checked * 1e6:.0f} us, {checked / bare:.2f}x of both "
        f"(budget {BUDGET}x: {verdict})"
    )


def main() -> None:
    for model, backends in MODELS.items():
        for backend in backends.split():
            if why := real_tokenizers.missing(model):
                print(f"{model}: {why}")
                continue
            try:
                print(row(model, backend), flush=True)
            except RendererError as error:
                print(f"{model} {backend}: left out: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
