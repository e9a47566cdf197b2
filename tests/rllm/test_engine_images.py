"""Pictures through rLLM's Tinker engine, on a copy of its sources with the changes of docs/rllm.md; a scripted sampler."""

from __future__ import annotations

import rllm_source

VISION = """
import asyncio, types
import rllm_offline, real_tokenizers
from PIL import Image
from rllm.engine.rollout.tinker_engine import TinkerEngine

class Processor:  # the part of a real one that tinker's renderer asks
    merge_size, patch_size = 2, 14
    def get_number_of_image_patches(self, height, width, images_kwargs=None):
        return (height // 14) * (width // 14)

tokenizer = real_tokenizers.load("Qwen/Qwen3.5-9B")
sampled = tokenizer.encode("Red.\\n</think>\\n\\nIt is red.<|im_end|>")
class Sampler:
    async def sample_async(self, prompt, num_samples, sampling_params):
        self.prompt = prompt
        one = types.SimpleNamespace(tokens=sampled, logprobs=[-0.5] * len(sampled), stop_reason="stop")
        return types.SimpleNamespace(sequences=[one])

engine = TinkerEngine("", "Qwen/Qwen3.5-9B", tokenizer, None, image_processor=Processor())
sampler = Sampler()
engine.set_sampling_client(sampler)
picture = [{"role": "user", "content": "What is this?", "images": [Image.new("RGB", (56, 84), "red")]}]
out = asyncio.run(engine.get_model_response(picture))
shown = [tokenizer.decode(each.tokens) if hasattr(each, "tokens") else each for each in sampler.prompt.chunks]
(at,) = [at for at, each in enumerate(shown) if not isinstance(each, str)]
assert shown[at].expected_tokens == 6 and shown[at].data
assert "".join(shown[:at]) == "<|im_start|>user\\n<|vision_start|>", shown
assert "".join(shown[at + 1 :]) == "<|vision_end|>What is this?<|im_end|>\\n<|im_start|>assistant\\n<think>\\n"
assert (out.content, out.reasoning.strip()) == ("It is red.", "Red."), out
print("done", "image")
"""


def test_images_reach_the_sampler_as_chunks_in_their_place(runs):
    """A model with vision: the picture itself, between the ids around it, and no bare placeholder."""
    rllm_source.need_engines("Qwen/Qwen3.5-9B")
    rllm_source.need("no image was shown to an engine", "PIL")
    runs(VISION, "image")


LENGTHS = """
import concurrent.futures
from rllm.workflows.cumulative_workflow import CumulativeWorkflow
from rllm.workflows.workflow import TerminationEvent

class Agent:
    def __init__(self):
        self.chat_completions = []
    def update_from_env(self, observation, *_):
        self.chat_completions.append(observation)
    def update_from_model(self, response):
        self.chat_completions.append({"role": "assistant", "content": "It is red."})

class Environment:
    def reset(self, task):
        return {"role": "user", "content": "Look."}, {}
    def step(self, action):
        return picture[0], 0.0, False, {}

left, prompts = [], []
sample = sampler.sample_async
async def sample_async(prompt, num_samples, sampling_params):
    left.append(sampling_params.max_tokens)
    prompts.append(prompt.length)
    return await sample(prompt, num_samples, sampling_params)

sampler.sample_async = sample_async
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    workflow = CumulativeWorkflow(Agent, Environment, max_steps=2, rollout_engine=engine, executor=pool)
    try:
        asyncio.run(workflow.run({}, "0"))
    except TerminationEvent:
        pass
assert left == [4096, 4096 - (prompts[1] - prompts[0])], (left, prompts)
"""


def test_what_is_left_for_an_answer_is_counted_in_positions(runs):
    """An image is one chunk of many positions."""
    rllm_source.need_engines("Qwen/Qwen3.5-9B")
    rllm_source.need("no image was shown to a workflow", "PIL", "codetiming", "polars")
    runs(VISION.replace('print("done", "image")', "") + LENGTHS + 'print("done", "lengths")', "lengths")
