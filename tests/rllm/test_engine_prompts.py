"""What rLLM's engines are asked to show in a prompt: reasoning effort, and the reasoning of earlier turns."""

from __future__ import annotations

import rllm_source

EFFORT = """
import asyncio, types
import rllm_offline, real_tokenizers
rllm_offline.stand_in_for_fireworks()
from rllm.engine.rollout.fireworks_engine import FireworksEngine
from rllm.engine.rollout.openai_engine import OpenAIEngine
from rllm.engine.rollout.tinker_engine import TinkerEngine

tokenizer = real_tokenizers.load("openai/gpt-oss-20b")
said = tokenizer.encode("<|channel|>final<|message|>Hi<|return|>")
seen = {}

class Sampler:
    async def sample_async(self, prompt, num_samples, sampling_params):
        seen["prompt"] = prompt.to_ints()
        one = types.SimpleNamespace(tokens=said, logprobs=[-0.5] * len(said), stop_reason="stop")
        return types.SimpleNamespace(sequences=[one])
    async def async_completions_stream(self, prompt, **options):
        seen.update(prompt=list(prompt), asked=options["reasoning_effort"])
        choice = {"raw_output": {"completion_token_ids": said}, "finish_reason": "stop"}
        return {"choices": [{**choice, "logprobs": {"content": [{"logprob": -0.5}] * len(said)}}]}, None
    async def create(self, model, prompt, **options):
        seen["prompt"] = prompt
        choice = types.SimpleNamespace(text="Hi", token_ids=said, finish_reason="stop", logprobs=None)
        return types.SimpleNamespace(choices=[choice], usage=types.SimpleNamespace(prompt_tokens=1, completion_tokens=1))

def engines(own):
    tinker = TinkerEngine("", "openai/gpt-oss-20b", tokenizer, None, **own)
    tinker.set_sampling_client(Sampler())
    openai = OpenAIEngine(tokenizer=tokenizer, api_key="none", base_url="http://127.0.0.1:9/v1", sampling_params=dict(own))
    openai.client = types.SimpleNamespace(completions=Sampler())
    return {"tinker": tinker, "fireworks": FireworksEngine(tokenizer, Sampler(), **own), "openai": openai}

for own in ({}, {"reasoning_effort": "high"}):
    for kind, engine in engines(own).items():
        for call in ({}, {"reasoning_effort": "medium" if own else "low"}):
            asyncio.run(engine.get_model_response([{"role": "user", "content": "x"}], **call))
            (shown,) = [line for line in tokenizer.decode(seen["prompt"]).splitlines() if line.startswith("Reasoning: ")]
            wanted = {"reasoning_effort": "medium", **own, **call}["reasoning_effort"]
            assert shown == f"Reasoning: {wanted}", (kind, own, call, shown)
            assert kind != "fireworks" or seen["asked"] == wanted, (own, call, seen["asked"])
print("done", "effort")
"""


def test_reasoning_effort_of_the_engine_and_of_a_call_is_in_the_prompt(runs):
    rllm_source.need_engines("openai/gpt-oss-20b")
    runs(EFFORT, "effort")


ACCUMULATED = """
import asyncio, types
import rllm_offline, real_tokenizers
rllm_offline.stand_in_for_fireworks()
from rllm.engine.rollout.fireworks_engine import FireworksEngine
from rllm.engine.rollout.openai_engine import OpenAIEngine
from rllm.engine.rollout.tinker_engine import TinkerEngine

tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
said = tokenizer.encode("<think>\\nShort.\\n</think>\\n\\nEight.<|im_end|>")
seen = {}

class Sampler:
    async def sample_async(self, prompt, num_samples, sampling_params):
        seen["prompt"] = prompt.to_ints()
        one = types.SimpleNamespace(tokens=said, logprobs=[-0.5] * len(said), stop_reason="stop")
        return types.SimpleNamespace(sequences=[one])
    async def async_completions_stream(self, prompt, **options):
        seen["prompt"] = list(prompt)
        choice = {"raw_output": {"completion_token_ids": said}, "finish_reason": "stop"}
        return {"choices": [{**choice, "logprobs": {"content": [{"logprob": -0.5}] * len(said)}}]}, None
    async def create(self, model, prompt, **options):
        seen["prompt"] = prompt
        choice = types.SimpleNamespace(text="Eight.", token_ids=said, finish_reason="stop", logprobs=None)
        return types.SimpleNamespace(choices=[choice], usage=types.SimpleNamespace(prompt_tokens=1, completion_tokens=1))

def engines(**own):
    tinker = TinkerEngine("", "Qwen/Qwen3-8B", tokenizer, None, **own)
    tinker.set_sampling_client(Sampler())
    openai = OpenAIEngine(tokenizer=tokenizer, api_key="none", base_url="http://127.0.0.1:9/v1", **own)
    openai.client = types.SimpleNamespace(completions=Sampler())
    return {"tinker": tinker, "fireworks": FireworksEngine(tokenizer, Sampler(), **own), "openai": openai}

messages = [
    {"role": "user", "content": "How many lids?"},
    {"role": "assistant", "content": "Seven.", "reasoning": "Counted them."},
    {"role": "user", "content": "And boats?"},
]
before = "<|im_start|>assistant\\n<think>\\nCounted them.\\n</think>\\n\\nSeven.<|im_end|>"
without = "<|im_start|>assistant\\nSeven.<|im_end|>"
for own in (False, True):
    for kind, engine in engines(accumulate_reasoning=own).items():
        for call in ({}, {"accumulate_reasoning": not own}):
            asyncio.run(engine.get_model_response(messages, **call))
            wanted = before if call.get("accumulate_reasoning", own) else without
            assert wanted in tokenizer.decode(seen["prompt"]), (kind, own, call, tokenizer.decode(seen["prompt"]))
print("done", "accumulated")
"""


def test_accumulate_reasoning_of_the_engine_and_of_a_call_is_in_the_prompt(runs):
    rllm_source.need_engines("Qwen/Qwen3-8B")
    runs(ACCUMULATED, "accumulated")
