"""Prompts and bridges of the tml backend against upstream alone, ``renderers`` and the chat template, in one run.

``python benchmarks/tml.py``: Qwen3 prompts of about 400, 22,000 and 92,000 ids; best of several rounds, in milliseconds of CPU.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import real_tokenizers  # noqa: E402

import rllm_renderer_core as core  # noqa: E402

MODEL = "Qwen/Qwen3-8B"
SIZES = (2, 92, 385)
"""Turns."""
TEXT = "The jar holds fifteen apples, six pears and a lid; count them again before you answer. "


def conversation(turns: int) -> list[dict[str, Any]]:
    """A system message and turns of about 230 ids each."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for at in range(turns):
        messages.append({"role": "user", "content": f"{at}: {(TEXT * 6).strip()}"})
        messages.append({"role": "assistant", "content": f"{at}: {(TEXT * 5).strip()}"})
    return [*messages, {"role": "user", "content": "And lids?"}]


def best(jobs: Sequence[Callable[[], Any]], rounds: int, in_a_row: int = 1) -> list[float]:
    """Milliseconds of CPU of each job's fastest run; by turns, so that what else the machine does hits all alike."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(rounds):
        for at, job in enumerate(jobs):
            for _ in range(in_a_row):
                start = time.process_time()
                job()
                times[at].append(time.process_time() - start)
    return [min(each) * 1000 for each in times]


def main() -> None:
    from tml_renderers import chat, renderers

    tokenizer = real_tokenizers.load(MODEL)
    tml = core.resolve(MODEL, tokenizer, backend="tml", parity="off")
    prime = core.resolve(MODEL, tokenizer, backend="prime", parity="off")
    theirs = prime.upstream.upstream if hasattr(prime.upstream, "upstream") else prime
    upstream = renderers.Qwen3()

    def direct(messages: list[dict[str, Any]]) -> list[int]:
        spans, _ = upstream.render_for_completion(chat.MessageList.from_oss_messages(messages))
        return [token for span in spans for token in span.span.int_tokens]

    print("| ids | tml resolved | upstream | of upstream | renderers | chat template | ahead of both |")
    print("|---|---|---|---|---|---|---|")
    for turns in SIZES:
        messages = conversation(turns)
        ids = tml.render_ids(messages, add_generation_prompt=True)
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        assert ids == tokenizer(text, add_special_tokens=False)["input_ids"] == direct(messages)
        rounds = (20, 30) if turns < 10 else (9,)
        jobs: list[Callable[[], Any]] = [
            lambda m=messages: tml.render_ids(m, add_generation_prompt=True),
            lambda m=messages: direct(m),
            lambda m=messages: theirs.render_ids(m, add_generation_prompt=True),
            lambda m=messages: tokenizer.apply_chat_template(m, add_generation_prompt=True),
        ]
        resolved, alone, prime_ms, template_ms = best(jobs, *rounds)
        ahead = min(prime_ms, template_ms) / resolved
        ratio = f"{resolved / alone:.2f}x"
        print(f"| {len(ids)} | {resolved:.2f} | {alone:.2f} | {ratio} | {prime_ms:.2f} | {template_ms:.2f} | {ahead:.1f}x |")
    prompt = ids
    completion = [*tokenizer.encode("<think>\nHm.\n</think>\n\nFour.", add_special_tokens=False), tml.get_stop_token_ids()[0]]
    new = [{"role": "user", "content": "Sure?"}]
    tml.bridge_to_next_turn(prompt, completion, new)
    bridges = [lambda each=each: each.bridge_to_next_turn(prompt, completion, new) for each in (tml, theirs)]
    mine, other = best(bridges, 6, 5)
    print(f"\nBridge at {len(prompt)} ids: tml {mine:.2f} ms, renderers' own {other:.2f} ms ({other / mine:.1f}x).")


if __name__ == "__main__":
    main()
