"""The loop against an inference server: ids go in, ids and log-probabilities come out, nothing is tokenized twice.

    python examples/inference_server.py --api vllm
    python examples/inference_server.py --api sglang --url http://localhost:30000

Without ``--url`` it starts the stand-in of this folder, which has no model.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from contextlib import nullcontext
from typing import Any, NamedTuple

import scripted_model
import stand_in_server
from rllm_renderer_training import Rollout

from rllm_renderer_core import resolve


class Sampled(NamedTuple):
    ids: list[int]
    logprobs: list[float]
    finish_reason: str | dict[str, Any]
    stop_reason: int | str | None = None


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def vllm(url: str, prompt: list[int], stop: list[int], limit: int) -> Sampled:
    """vLLM's /inference/v1/generate."""
    wanted = {"max_tokens": limit, "stop_token_ids": stop, "logprobs": 0}
    (choice,) = post(f"{url}/inference/v1/generate", {"token_ids": prompt, "sampling_params": wanted})["choices"]
    return Sampled(choice["token_ids"], [each["logprob"] for each in choice["logprobs"]["content"]], choice["finish_reason"])


def vllm_completions(url: str, prompt: list[int], stop: list[int], limit: int) -> Sampled:
    """vLLM's /v1/completions with return_token_ids."""
    body = {"model": scripted_model.MODEL, "prompt": prompt, "max_tokens": limit, "stop_token_ids": stop, "logprobs": 0}
    (choice,) = post(f"{url}/v1/completions", {**body, "return_token_ids": True})["choices"]
    return Sampled(choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["finish_reason"], choice["stop_reason"])


def sglang(url: str, prompt: list[int], stop: list[int], limit: int) -> Sampled:
    """SGLang's /generate."""
    wanted = {"max_new_tokens": limit, "stop_token_ids": stop, "no_stop_trim": True}
    about = post(f"{url}/generate", {"input_ids": prompt, "sampling_params": wanted, "return_logprob": True})["meta_info"]
    logprobs, ids, _ = zip(*about["output_token_logprobs"], strict=True)
    return Sampled(list(ids), list(logprobs), about["finish_reason"])


APIS = {"vllm": vllm, "vllm-completions": vllm_completions, "sglang": sglang}


def play(url: str, api: str, max_len: int = 4096) -> Rollout:
    """One episode."""
    renderer = resolve(scripted_model.MODEL, scripted_model.tokenizer(), require_bridge=True)
    rollout = Rollout(renderer)
    prompt = rollout.begin([scripted_model.QUESTION], tools=scripted_model.TOOLS)
    while True:
        sampled = APIS[api](url, prompt, renderer.get_stop_token_ids(), rollout.remaining(max_len))
        words = {"finish_reason": sampled.finish_reason, "stop_reason": sampled.stop_reason}
        parsed = rollout.record(sampled.ids, sampled.logprobs, **words)
        if not parsed.runnable:
            break
        results = [scripted_model.run(call) for call in parsed.runnable]
        if not rollout.remaining(max_len, results):
            break
        prompt = rollout.extend(results)
    return rollout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", choices=APIS, default="vllm")
    parser.add_argument("--url", help="a running server; the stand-in if left out")
    options = parser.parse_args()
    sample = scripted_model.sampler(scripted_model.tokenizer())
    with nullcontext(options.url) if options.url else stand_in_server.running(sample) as url:
        rollout = play(url, options.api)
    for message in rollout.messages:
        print(f"{message['role']}: {message['content'] or message.get('tool_calls')}")
    for segment in rollout.segments:
        print(f"{len(segment.token_ids)} ids, {segment.sampled_count} sampled in {len(segment.turns)} turns")


if __name__ == "__main__":
    main()
