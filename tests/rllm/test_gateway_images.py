"""A picture through the patched gateway, with a Tinker engine: JSON and streams, from the request to the trainer's step."""

from __future__ import annotations

import json

import pytest
import real_tokenizers
import rllm_source

MODEL = "Qwen/Qwen3.5-9B"

SCRIPT = """
import base64, io, json, types
import rllm_offline, real_tokenizers
from PIL import Image
import openai
import scripted_rollout as script
from rllm.engine.rollout.tinker_engine import TinkerEngine
from rllm.engine.trace_converter import trace_record_to_step
from rllm.gateway.tinker_adapter import create_tinker_handler
from rllm.trainer.tinker.transform import trajectory_to_datums
from rllm.types import Trajectory
from rllm_model_gateway import GatewayClient, GatewayConfig, create_app
from tinker.types import ImageChunk

class Processor:  # the part of a real one that tinker's renderer asks
    merge_size, patch_size = 2, 14
    def get_number_of_image_patches(self, height, width, images_kwargs=None):
        return (height // 14) * (width // 14)

MODEL = "Qwen/Qwen3.5-9B"
tokenizer = real_tokenizers.load(MODEL)
sampled = tokenizer.encode("Red.\\n</think>\\n\\nIt is red.<|im_end|>")
prompts = []

class Sampler:
    async def sample_async(self, prompt, num_samples, sampling_params):
        prompts.append(prompt.chunks)
        one = types.SimpleNamespace(tokens=sampled, logprobs=[-0.5] * len(sampled), stop_reason="stop")
        return types.SimpleNamespace(sequences=[one])

def text(chunks):
    return "".join(tokenizer.decode(each.tokens) if hasattr(each, "tokens") else f"({each.length} ids)" for each in chunks)

engine = TinkerEngine("", MODEL, tokenizer, None, image_processor=Processor())
engine.set_sampling_client(Sampler())
renderer = getattr(engine, "unified_renderer", None) or engine.renderer
file = io.BytesIO()
Image.new("RGB", (56, 84), "red").save(file, "PNG")
url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]}
asked = [[shown], [{"role": "user", "content": "Sure?"}], [shown], [{"role": "user", "content": "Both?"}]]
config = GatewayConfig(cumulative_token_mode=True, sync_traces=True, model=MODEL)
out = {}
with script.Served(create_app(config, local_handler=create_tinker_handler(engine), renderer=renderer)) as gateway:
    for stream in (False, True):
        prompts.clear()
        said, messages = [], []
        with openai.OpenAI(base_url=f"{gateway}/sessions/{stream}/v1", api_key="none", max_retries=0) as client:
            for new in asked:
                messages += new
                answer = client.chat.completions.create(model="m", messages=messages, stream=stream)
                if stream:
                    said.append("".join(each.choices[0].delta.content or "" for each in answer if each.choices))
                else:
                    said.append(answer.choices[0].message.content)
                messages.append({"role": "assistant", "content": said[-1]})
        steps = [trace_record_to_step(trace) for trace in GatewayClient(gateway).get_session_traces(str(stream))]
        for step in steps:
            step.advantage = 1.0
        datums = trajectory_to_datums(Trajectory(steps=steps))
        out[str(stream)] = {
            "said": said,
            "prompts": [text(each) for each in prompts],
            "steps": [sum(isinstance(each, ImageChunk) for each in step.prompt_ids) for step in steps],
            "lengths": [step.model_output.prompt_length for step in steps],
            "sampled": [sum(each.length for each in chunks) for chunks in prompts],
            "datums": [sum(isinstance(each, ImageChunk) for each in datum.model_input.chunks) for datum in datums],
        }
print(json.dumps(out))
"""

PICTURE = "<|im_start|>user\n<|vision_start|>(6 ids)<|vision_end|>What?<|im_end|>\n"
OPENER = "<|im_start|>assistant\n<think>\n"
SAMPLED = "Red.\n</think>\n\nIt is red.<|im_end|>"


@pytest.fixture(scope="module")
def found(process, tmp_path_factory):
    """What the script saw."""
    rllm_source.need("no picture went through the gateway", "tinker", "tinker_cookbook", "PIL", "codetiming", "polars")
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    file = tmp_path_factory.mktemp("images") / "images.py"
    file.write_text(SCRIPT)
    result = process("-W", "ignore", file)
    assert result.returncode == 0, result.stderr[-4000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("stream", ["False", "True"], ids=["json", "stream"])
def test_the_picture_is_sampled_from_and_stays_in_its_place(found, stream):
    """The second turn continues the first turn's ids behind the picture; the third has one of its own and is rendered."""
    out = found[stream]
    assert out["said"] == ["It is red."] * 4
    first, second, third, fourth = out["prompts"]
    assert first == PICTURE + OPENER
    assert second == f"{first}{SAMPLED}\n<|im_start|>user\nSure?<|im_end|>\n{OPENER}"
    assert third.endswith(PICTURE + OPENER) and third.count("(6 ids)") == 2
    assert fourth == f"{third}{SAMPLED}\n<|im_start|>user\nBoth?<|im_end|>\n{OPENER}"


@pytest.mark.parametrize("stream", ["False", "True"], ids=["json", "stream"])
def test_a_trainer_gets_the_picture(found, stream):
    out = found[stream]
    assert out["steps"] == [1, 1, 2, 2]
    assert out["lengths"] == out["sampled"]
    assert out["datums"] == [1, 2], "two segments: a bridge can't carry a new picture"
