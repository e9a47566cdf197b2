"""Generated bridge calls: P + C and every new message, or declined; by many threads and in another process the same ids.

A few of one renderer; hundreds of each with ``--whole``.
"""

from __future__ import annotations

import collections
import multiprocessing
import pickle
import random
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import shapes
import tinker_generated
import tml_oracle as oracle
from sampling import WHOLE, how_many
from tinker_turns import Turn

from rllm_renderer_core import RendererError

CALLS = how_many(30, 500)
SPELLED = {
    "Qwen3": "qwen3",
    "Qwen3.instruct": "qwen3",
    "Qwen35": "qwen3_5",
    "Qwen35.disable_thinking": "qwen3_5",
    "Qwen38": "qwen3_5",
    "DeepSeekV3": "deepseekv3",
    "DeepSeekV31": "deepseekv3",
    "DeepSeekV4": "deepseekv4_1",
    "Glm52": "glm5_3_max_reasoning",
    "KimiK25": "kimi_k26",
    "Nemotron3": "nemotron3",
    "GptOss": "gpt_oss_medium_reasoning",
    "v0": "inkling",
}
"""The name by which tinker_turns has a call of the same format."""
CASES = [case for case in oracle.CASES if case.thinking is None]
SAMPLE = [case for case in CASES if case.renderer == "Qwen3"]
cases = pytest.mark.parametrize("case", CASES if WHOLE else SAMPLE, ids=str)


def turns_of(case):
    renderer = oracle.resolved(case.renderer, case.model)
    named = SimpleNamespace(renderer=SPELLED[case.renderer], model=case.model)
    turns = [Turn(named, renderer)]
    if "tools" not in case.refused:
        turns.append(Turn(named, renderer, shapes.TOOLS))
    return turns


@cases
def test_generated_bridges_keep_the_contract(case, record_property):
    turns = turns_of(case)
    found = collections.Counter()
    for number in range(CALLS):
        rng = random.Random(f"{case}-{number}")
        turn = rng.choice(turns)
        sampled, new = tinker_generated.completion(rng, turn), tinker_generated.new_messages(rng)
        try:
            found[tinker_generated.check(turn, sampled, new)] += 1
        except AssertionError as error:
            raise AssertionError(f"number {number}: {error}: {turn.tokenizer.decode(sampled)!r} then {new}") from error
    record_property("outcomes", dict(found))
    print(case, dict(found))
    assert found["equal"]


def outcomes(renderer, jobs):
    """What each job gives: ids of a prompt and of a bridge, or why there is none."""
    out = []
    for prompt, sampled, new, tools in jobs:
        tried = renderer.try_bridge(prompt, sampled, new, tools=tools)
        try:
            whole = renderer.render_ids([*shapes.OPENING, shapes.TEXT, *new], tools=tools, add_generation_prompt=True)
        except RendererError as error:
            whole = type(error).__name__
        out.append((getattr(tried, "token_ids", None) or tried.reason, whole))
    return out


def in_process(pickled, jobs):
    return outcomes(pickle.loads(pickled), jobs)


def test_threads_and_another_process_give_the_same_ids():
    (turn, *_) = turns_of(SAMPLE[0])
    rng = random.Random(1)
    jobs = [
        (turn.prompt, tinker_generated.completion(rng, turn), tinker_generated.new_messages(rng), turn.tools)
        for _ in range(32 * (30 if WHOLE else 2))
    ]
    expected = outcomes(turn.resolved, jobs)
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda job: outcomes(turn.resolved, [job])[0], jobs)) == expected
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(in_process, pickle.dumps(turn.resolved), jobs).result() == expected
