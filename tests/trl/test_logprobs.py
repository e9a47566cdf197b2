"""The proof by log-probabilities: what the trainer computes for the sampled ids is what they were sampled with.

A model whose weights haven't changed gives an id the same log-probability twice only behind the same ids. So the difference is
nought, but for the arithmetic, exactly where the trainer trains what was sampled.
"""

from __future__ import annotations

import functools

import pytest
import real_tokenizers
from tiny_trainer import add, scripted, sum_of_two, tiny_model, tiny_trainer

from rllm_renderer_core import resolve

pytestmark = pytest.mark.needs("trl", "trl-steps")
MODELS = real_tokenizers.here("Qwen/Qwen3-8B", "zai-org/GLM-4.5", "MiniMaxAI/MiniMax-M3")


def trained(trainer, prompts):
    """The rows that TRL makes of the prompts, and its log-probabilities of the ids in their masks."""
    import torch

    batch = trainer._generate_and_score_completions([{"prompt": prompt} for prompt in prompts])
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    with torch.no_grad():
        logprobs, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, attention, width)
    masks = (batch["completion_mask"] * batch.get("tool_mask", 1)).bool()
    return batch, [row[mask].tolist() for row, mask in zip(logprobs, masks, strict=True)]


def worst(rows, others):
    return max(abs(one - other) for row, more in zip(rows, others, strict=True) for one, other in zip(row, more, strict=True))


PROMPTS = [[{"role": "user", "content": question}] for question in ("What is 1 + 2?", "And what is 1 + 2, please?")]


def episodes(model, folder, **arguments):
    """What the trainer made of two episodes, and what was sampled in them: turn by turn, and all of each row."""
    renderer = renderer_of(model)
    policy = tiny_model(renderer.tokenizer)
    policy.generation_config.eos_token_id = renderer.get_stop_token_ids()  # as published models have it
    options = {"temperature": 0.7, "per_device_train_batch_size": 2}
    trainer = tiny_trainer(model, folder, model=policy, trainer=arguments, **options)
    with scripted(trainer.model, sum_of_two(renderer)) as sampled:
        batch, logprobs = trained(trainer, PROMPTS)
    return batch, logprobs, sampled, [first + second for first, second in zip(*sampled.logprobs, strict=True)]


@functools.cache
def renderer_of(model):
    return resolve(tokenizer=real_tokenizers.load(model), require_bridge=True)


@pytest.mark.parametrize("model", MODELS)
def test_the_trainer_computes_what_the_ids_were_sampled_with(model, tmp_path):
    from rllm_renderer_trl import rollout

    batch, logprobs, _, whole = episodes(model, tmp_path, rollout_func=rollout([add], renderer=renderer_of(model)))
    assert [len(row) for row in logprobs] == [sum(map(len, sum_of_two(renderer_of(model))))] * 2
    assert worst(logprobs, whole) < 1e-4
    masks = (batch["completion_mask"] * batch["tool_mask"]).bool()
    recorded = [row[mask].tolist() for row, mask in zip(batch["sampling_per_token_logps"], masks, strict=True)]
    assert worst(recorded, whole) < 1e-4, "and so says what rollout_func recorded"


def logprobs_behind(policy, prompt, completion):
    """At the temperature of the episodes."""
    import torch

    with torch.no_grad():
        logits = policy(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    return (logits / 0.7).log_softmax(-1).gather(-1, torch.tensor(completion)[:, None])[:, 0].tolist()


@pytest.mark.needs("jmespath")
@pytest.mark.parametrize("model", real_tokenizers.here("Qwen/Qwen3-8B"))
def test_trls_own_loop_samples_and_trains_the_same_on_qwen3(model, tmp_path):
    _, logprobs, sampled, whole = episodes(model, tmp_path, tools=[add])
    assert len(sampled.prompts) == 2 and worst(logprobs, whole) < 1e-4


@pytest.mark.needs("jmespath")
@pytest.mark.parametrize("model", real_tokenizers.here("zai-org/GLM-4.5"))
def test_trls_own_loop_goes_on_behind_a_doubled_tag_on_glm(model, tmp_path):
    """GLM ends a turn with the tag of the result that follows; TRL adds that again, and the answer is sampled behind both."""
    from rllm_renderer_trl import rollout

    script, policy = sum_of_two(renderer_of(model)), tiny_model(renderer_of(model).tokenizer)
    trainer = tiny_trainer(model, tmp_path, model=policy, temperature=0.7, trainer={"rollout_func": rollout([add])})
    with scripted(policy, script) as sampled:
        trained(trainer, PROMPTS)
    suffix = trainer._get_tool_suffix_ids([{"role": "tool", "name": "add", "content": "3"}])
    before = sampled.prompts[0][0] + script[0]
    ours, theirs = sampled.prompts[1][0], before + suffix
    assert theirs == [*before, before[-1], *ours[len(before) :]], "one id more"
    behind = [logprobs_behind(policy, prompt, script[1]) for prompt in (ours, theirs)]
    assert worst([behind[0]], [sampled.logprobs[1][0]]) < 1e-4, "ours are what they were sampled with"
    assert worst(behind[:1], behind[1:]) > 1, "theirs are by more than an e-fold"


@pytest.mark.needs("jmespath")
@pytest.mark.parametrize("model", real_tokenizers.here("MiniMaxAI/MiniMax-M3"))
def test_trls_own_loop_doesnt_take_minimax_m3(model, tmp_path):
    with pytest.raises(ValueError, match="Unrecognized chat template"):
        tiny_trainer(model, tmp_path, trainer={"tools": [add]})
