"""rLLM's engines on a copy of its sources with the changes of docs/rllm.md: real engines, scripted samplers, no service."""

from __future__ import annotations

import pytest
import rllm_source

MODELS = ("Qwen/Qwen3-8B", "MiniMaxAI/MiniMax-M3", "deepseek-ai/DeepSeek-V4-Flash")

SCRIPT = """
import asyncio, json, sys, types
import rllm_offline, real_tokenizers
rllm_offline.stand_in_for_fireworks()
import scripted_rollout as script
from rllm.engine.rollout.fireworks_engine import FireworksEngine
from rllm.engine.rollout.tinker_engine import TinkerEngine
import rllm_renderer_rllm as ours

model, bare, named = sys.argv[1], sys.argv[2] == "bare", sys.argv[3] == "named"
tokenizer = real_tokenizers.load(model, template=not bare)
made = ours.resolve(model, tokenizer)
sampled = script.completion(made.renderer, 0)
seen = {}

class TinkerSampler:
    async def sample_async(self, prompt, num_samples, sampling_params):
        seen.update(prompt=prompt.to_ints(), stop=sampling_params.stop)
        one = types.SimpleNamespace(tokens=sampled, logprobs=[-0.5] * len(sampled), stop_reason="stop")
        return types.SimpleNamespace(sequences=[one])

class FireworksSampler:
    async def async_completions_stream(self, prompt, **options):
        seen.update(prompt=list(prompt))
        choice = {"raw_output": {"completion_token_ids": sampled}, "finish_reason": "stop"}
        choice["logprobs"] = {"content": [{"logprob": -0.5}] * len(sampled)}
        return {"choices": [choice]}, None

options = {"renderer_family": made.name} if named and made.source == "prime" else {}
tinker = TinkerEngine("", model, tokenizer, None)
tinker.set_sampling_client(TinkerSampler())
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many lids?"}]
picture = [{"role": "user", "content": "?", "images": [object()]}]
for kind, engine in (("tinker", tinker), ("fireworks", FireworksEngine(tokenizer, FireworksSampler(), **options))):
    out = asyncio.run(engine.get_model_response(messages, tools=script.TOOLS))
    assert seen["prompt"] == made.renderer.render_ids(messages, tools=script.TOOLS, add_generation_prompt=True), kind
    assert list(out.prompt_ids) == seen["prompt"] and out.completion_ids == sampled, kind
    assert [(call.name, call.arguments) for call in out.tool_calls] == [("look", {"q": "lids"}), ("count", {"q": "lids"})], kind
    assert (out.reasoning.strip(), out.content.strip()) == ("Two things to find", ""), kind
    try:
        asyncio.run(engine.get_model_response(picture))
        raise SystemExit(f"{kind}: an image was dropped")
    except ValueError as error:
        assert "image" in str(error), error
assert seen["stop"] == made.renderer.stop_sequences

# From ids alone, where nothing renders: the tools still tell that "12" is text.
from rllm.engine.rollout.completer import TITOCompleter
from rllm.gateway import tinker_adapter
sampled = script.completion(made.renderer, 0, (script.Turn(None, calls=(("look", "12"),)),))
step = asyncio.run(TITOCompleter(tinker).complete(messages, tools=script.TOOLS))
assert [(call.name, call.arguments) for call in step.model_output.tool_calls] == [("look", {"q": "12"})], step.model_output
if hasattr(tinker_adapter, "_token_prompt_completion"):  # 955a0c29
    body = {"prompt": list(step.prompt_ids), "tools": script.TOOLS}
    (choice,) = asyncio.run(tinker_adapter.create_tinker_handler(tinker)(body))["choices"]
    assert json.loads(choice["tool_calls"][0]["function"]["arguments"]) == {"q": "12"}, choice
print("done", made.source)
"""


def run(process, tmp_path, *arguments, **options):
    file = tmp_path / "engine.py"
    file.write_text(SCRIPT)
    result = process("-W", "ignore", file, *arguments, **options)
    assert result.returncode == 0, result.stdout[-500:] + result.stderr[-4000:]
    return result.stdout.split()[-2:]


@pytest.mark.parametrize("model", MODELS)
def test_prompts_stops_and_outputs_of_both_engines_are_the_renderers(process, tmp_path, model):
    rllm_source.need_engines(model)
    assert run(process, tmp_path, model, "as published", "named")[0] == "done"


def test_no_engine_needs_to_be_told(process, tmp_path):
    """Without a chat template too."""
    rllm_source.need_engines("Qwen/Qwen3-8B")
    for kind in ("as published", "bare"):
        assert run(process, tmp_path, "Qwen/Qwen3-8B", kind, "auto") == ["done", "prime"]


def test_parser_of_old_stays_reachable(changed, process):
    """The flag that every run of rLLM's main has today."""
    if rllm_source.unified(changed):
        pytest.skip("this revision has the flag already, and the change doesn't touch it")
    rllm_source.need_engines("Qwen/Qwen3-8B")
    code = (
        "import real_tokenizers\n"
        "from rllm.engine.rollout.tinker_engine import TinkerEngine\n"
        "t = real_tokenizers.load('Qwen/Qwen3-8B')\n"
        "e = TinkerEngine('', 'Qwen/Qwen3-8B', t, None, bypass_render_with_parser=True)\n"
        "print(type(e.chat_parser).__name__, e.renderer, e.stop_sequences)\n"
    )
    result = process("-W", "ignore", "-c", code)
    assert result.stdout.split() == ["QwenChatTemplateParser", "None", "[151645]"], result.stderr[-3000:]


COMPLETER = """
import asyncio, types
import rllm_offline, real_tokenizers
from rllm.engine.rollout.completer import TITOCompleter
from rllm.engine.rollout.tinker_engine import TinkerEngine
import rllm_renderer_rllm as ours

tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
renderer = ours.get_renderer("Qwen/Qwen3-8B", tokenizer)
sampled = tokenizer.encode("<think>\\nShort.\\n</think>\\n\\nHel") + tokenizer.encode("lo.<|im_end|>")  # no encoder's ids
class Sampler:
    async def sample_async(self, prompt, num_samples, sampling_params):
        self.prompt = prompt.to_ints()
        one = types.SimpleNamespace(tokens=sampled, logprobs=[-0.5] * len(sampled), stop_reason="stop")
        return types.SimpleNamespace(sequences=[one])

engine = TinkerEngine("", "Qwen/Qwen3-8B", tokenizer, None)
sampler = Sampler()
engine.set_sampling_client(sampler)
one, two, three = ({"role": "user", "content": text} for text in ("One", "Two", "Three"))
def assistant(text):
    return {"role": "assistant", "content": text}

def second(messages, tools=None):
    completer = TITOCompleter(engine)
    step = asyncio.run(completer.complete([one]))
    first = sampler.prompt
    asyncio.run(completer.complete(messages(step), tools=tools))
    return sampler.prompt[: len(first) + len(sampled)] == first + sampled, sampler.prompt

for follow in (lambda step: [*step.chat_completions, two], lambda step: [one, assistant("Hello."), two]):
    bridged, prompt = second(follow)
    assert bridged and tokenizer.decode(prompt).endswith("Two<|im_end|>\\n<|im_start|>assistant\\n")
tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
for messages, declared in (
    ([one, assistant("Hello."), two, assistant("MUST BE SEEN"), three], None),
    ([one, two], None),  # the answer was thrown away
    ([one, assistant("Something else."), two], None),
    ([one, assistant("Hello."), two], tools),
):
    bridged, prompt = second(lambda step: messages, declared)
    assert not bridged, messages
    assert prompt == renderer.render_ids(messages, tools=declared, add_generation_prompt=True), tokenizer.decode(prompt)
print("done", "completer")
"""


def test_completer_continues_what_was_sampled_and_nothing_else(runs):
    rllm_source.need_engines("Qwen/Qwen3-8B")
    runs(COMPLETER, "completer")


ASYNC = """
import asyncio
import rllm_offline, real_tokenizers, scripted_rollout as script
from rllm.experimental.fully_async.client import RolloutClient
import rllm_renderer_rllm as ours

tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
renderer = ours.get_renderer("Qwen/Qwen3-8B", tokenizer)
sampled = script.completion(renderer, 0)
seen = []

async def post(payload):
    seen.append(payload["input_ids"])
    pairs = [(-0.5, token, None) for token in sampled]
    return {"meta_info": {"finish_reason": {"type": "stop"}, "output_token_logprobs": pairs}, "output_ids": sampled}

client = RolloutClient("http://127.0.0.1:9", tokenizer)
client._post = post
messages = [{"role": "user", "content": "How many lids?"}]
message, output = asyncio.run(client.chat_completion(messages, tools=script.TOOLS))
assert seen[0] == renderer.render_ids(messages, tools=script.TOOLS, add_generation_prompt=True)
assert output.all_response_ids() == sampled
assert message["reasoning_content"].strip() == "Two things to find", message
assert [call["function"]["name"] for call in message["tool_calls"]] == ["look", "count"], message
results = [{"role": "tool", "tool_call_id": call["id"], "content": "7"} for call in message["tool_calls"]]
asyncio.run(client.chat_completion([*messages, message, *results], tools=script.TOOLS))
assert seen[1][: len(seen[0])] == seen[0] and tokenizer.decode(seen[1]).count("<tool_response>") == 2, tokenizer.decode(seen[1])
print("done", "async")
"""


def test_client_of_fully_async_renders_and_parses_by_the_renderer(runs):
    rllm_source.need_engines("Qwen/Qwen3-8B")
    runs(ASYNC, "async")
