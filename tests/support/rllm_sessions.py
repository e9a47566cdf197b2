"""Sessions through rLLM's own ``GatewayManager`` and engines: ``python -m rllm_sessions ENGINE MODEL``.

A patched copy of rLLM's sources must be importable. ENGINE is ``tinker`` or ``fireworks`` (in the gateway's process, with a
scripted sampler), or ``verl`` (a scripted worker over HTTP). The last line of its output is ``done``, or an assertion says
which turn of which session is wrong.
"""

from __future__ import annotations

import socket
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import real_tokenizers
import rllm_offline
import rllm_renderer_rllm
import scripted_rollout as script
from omegaconf import OmegaConf
from scripted_client import Played, check_answer, play

EDITED_AFTER, CALL_EDITED_AFTER = 1, 3
"""Turns whose answers the clients below change: one that says a text, and one that makes a call."""


class Sampler:
    """Samples what the script says, from whatever ids an engine hands over, in the answers of tinker and of Fireworks."""

    def __init__(self, worker: script.Worker) -> None:
        self._worker = worker

    async def sample_async(self, prompt: Any, num_samples: int, sampling_params: Any) -> Any:
        _, turn, sampled = self._worker.sample("engine", prompt.to_ints())
        sequence = types.SimpleNamespace(tokens=sampled, logprobs=[-0.5] * len(sampled), stop_reason=self._reason(turn))
        return types.SimpleNamespace(sequences=[sequence])

    async def async_completions_stream(self, prompt: list[int], **_: Any) -> Any:
        _, turn, sampled = self._worker.sample("engine", prompt)
        choice = {"raw_output": {"completion_token_ids": sampled}, "finish_reason": self._reason(turn)}
        return {"choices": [{**choice, "logprobs": {"content": [{"logprob": -0.5}] * len(sampled)}}]}, None

    def _reason(self, turn: int) -> str:
        return "length" if self._worker.turns[turn].cut_off else "stop"


@contextmanager
def engine_of(kind: str, model: str, tokenizer: Any, worker: script.Worker, named: dict[str, str]) -> Iterator[Any]:
    """rLLM's own engine, without a service behind it."""
    if kind == "tinker":
        from rllm.engine.rollout.tinker_engine import TinkerEngine

        engine = TinkerEngine("", model, tokenizer, None, **named)
        engine.set_sampling_client(Sampler(worker))
        yield engine
    elif kind == "fireworks":
        rllm_offline.stand_in_for_fireworks()
        from rllm.engine.rollout.fireworks_engine import FireworksEngine

        yield FireworksEngine(tokenizer, Sampler(worker), **named)
    else:
        rllm_offline.stand_in_for_verl()
        from rllm.engine.rollout.verl_engine import VerlEngine

        sampling = {"do_sample": True, "temperature": 1.0, "top_k": -1, "top_p": 1.0}
        rollout = {"name": "vllm", **sampling, "val_kwargs": sampling}
        lengths = {"max_prompt_length": 4096, "max_response_length": 4096}
        config = {"model": {"name": model}, "rllm": {}, "actor_rollout_ref": {"rollout": rollout}, "data": lengths}
        with script.Served(worker.app()) as url:
            engine = VerlEngine(OmegaConf.create(config), None, tokenizer)
            engine.server_addresses = [url]
            yield engine


@contextmanager
def managed(engine: Any, model: str, named: dict[str, str]) -> Iterator[Any]:
    """The manager of a gateway in this process, in front of the engine."""
    from rllm.gateway.manager import GatewayManager

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gateway = {"host": "127.0.0.1", "port": port, "cumulative_token_mode": True}
    config = {"rllm": {"gateway": gateway}, "model": {"name": model}, "rollout_engine": named}
    manager = GatewayManager(OmegaConf.create(config), mode="thread")
    manager.start(engine)
    try:
        yield manager
    finally:
        manager.stop()


def check_session(worker: script.Worker, manager: Any, number: int, *, stream: bool) -> None:
    """Every turn traced, all of them one segment, and every part of every answer where it belongs."""
    played = play(manager.gateway_url, number, turns=worker.turns, stream=stream)
    traces = manager.get_traces(played.name)
    assert len(traces) == len(worker.turns), f"{len(traces)} of {len(worker.turns)} turns were traced"
    assert script.segments(traces) == 1, f"{script.segments(traces)} segments"
    for turn, (scripted, answer, trace) in enumerate(zip(worker.turns, played.answers, traces, strict=True)):
        check_answer(worker.renderer, scripted, answer)
        assert list(trace.completion_token_ids) == script.completion(worker.renderer, turn, worker.turns), turn
        assert len(trace.logprobs) == len(trace.completion_token_ids), turn
        check_answer(worker.renderer, scripted, trace.response_message)


Edit = Callable[[dict[str, Any]], list[dict[str, Any]]]


def _with_other_arguments(message: dict[str, Any]) -> list[dict[str, Any]]:
    (call,) = message["tool_calls"]
    return [{**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": '{"q": "ships"}'}}]}]


EDITS: dict[str, tuple[int, Edit]] = {
    "edited": (EDITED_AFTER, lambda message: [{**message, "content": "There are eight lids."}]),
    "dropped": (EDITED_AFTER, lambda message: []),
    "added": (EDITED_AFTER, lambda message: [message, {"role": "assistant", "content": "One more thing."}]),
    "call edited": (CALL_EDITED_AFTER, _with_other_arguments),
}


def check_edit(worker: script.Worker, manager: Any, number: int, name: str, *, stream: bool) -> None:
    """What a client made of an answer is what the next turn is sampled from, in a segment of its own."""
    edited_after, edit = EDITS[name]
    turns = worker.turns[: edited_after + 3]
    worker.log.clear()
    played: Played = play(
        manager.gateway_url,
        number,
        turns=turns,
        stream=stream,
        edit=lambda turn, message: edit(message) if turn == edited_after else [message],
    )
    prompts = [entry["prompt"] for entry in worker.log]
    asked = played.asked[edited_after + 1]
    rendered = worker.renderer.render_ids(asked, tools=script.TOOLS, add_generation_prompt=True)
    assert prompts[edited_after + 1] == rendered, f"{name}: {worker.renderer.tokenizer.decode(prompts[edited_after + 1])}"
    traces = manager.get_traces(played.name)
    assert len(traces) == len(turns) and script.segments(traces) == 2, f"{name}: {script.segments(traces)} segments"


def main(kind: str, model: str) -> None:
    tokenizer = real_tokenizers.load(model)
    made = rllm_renderer_rllm.resolve(model, tokenizer)
    # The spelling that docs/rllm.md advises, for the engine alone: its gateway takes the renderer over.
    named = {"renderer_family": made.name} if made.source == "prime" and kind != "verl" else {}
    worker = script.Worker(made.renderer, turns=script.turns_of(model))
    with engine_of(kind, model, tokenizer, worker, named) as engine, managed(engine, model, named) as manager:
        for stream in (False, True):
            check_session(worker, manager, int(stream), stream=stream)
            for number, name in enumerate(EDITS):
                check_edit(worker, manager, 10 * (1 + stream) + number, name, stream=stream)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
