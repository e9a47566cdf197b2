"""Ids in, ids and log-probabilities out, by what the trainer generates with: its own model, or vLLM as TRL runs it."""

import copy
from typing import Any

Sampled = tuple[list[int], list[float | None]]


def generate(trainer: Any, asked: list[tuple[list[int], int]], stop_ids: list[int], spare: list[int]) -> list[Sampled]:
    """One completion for each prompt, up to a stop and with it, and its log-probabilities; as many ids as the most room of any.

    Servers, and models spread over processes, need every process in each call, with equal counts: ``spare`` fills up.
    """
    from accelerate.utils import gather_object

    most, limit = map(max, zip(*gather_object([(len(asked), max([room for _, room in asked], default=1))]), strict=True))
    prompts = [prompt for prompt, _ in asked] + [spare] * (most - len(asked))
    sampled = (_by_vllm if trainer.use_vllm else _by_the_model)(trainer, prompts, stop_ids, limit) if prompts else []
    ends = [next((at for at, token in enumerate(ids, 1) if token in stop_ids), len(ids)) for ids, _ in sampled[: len(asked)]]
    return [(ids[:end], logprobs[:end]) for (ids, logprobs), end in zip(sampled, ends, strict=False)]


def _by_vllm(trainer: Any, prompts: list[list[int]], stop_ids: list[int], limit: int) -> list[Sampled]:
    """vLLM, server or colocated, through TRL's ``VLLMGeneration``, to which TRL has sent the weights."""
    vllm = trainer.vllm_generation
    given, most = vllm.generation_kwargs, vllm.max_completion_length
    stops = sorted({*stop_ids, *(given.get("stop_token_ids") or ())})
    vllm.generation_kwargs, vllm.max_completion_length = {**given, "stop_token_ids": stops}, limit
    try:
        _, completions, logprobs, _ = vllm.generate(prompts=prompts, images=None, num_generations=1)
    finally:
        vllm.generation_kwargs, vllm.max_completion_length = given, most
    return [(list(ids), [top[0] for top in values]) for ids, values in zip(completions, logprobs, strict=True)]


def _by_the_model(trainer: Any, prompts: list[list[int]], stop_ids: list[int], limit: int) -> list[Sampled]:
    """transformers' ``generate`` of the model that is trained. Log-probabilities are as the trainer will compute them: at its
    temperature, before top-k, top-p and min-p; the logits of one step are held at a time."""
    import torch
    from trl.models.utils import unwrap_model_for_generation

    override = {**trainer.generation_kwargs, "eos_token_id": stop_ids, "max_new_tokens": limit}
    config = copy.deepcopy(trainer.generation_config)
    config.update(**override)
    width = max(map(len, prompts))
    padded = [[config.pad_token_id] * (width - len(ids)) + ids for ids in prompts]
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]
    device, gather = trainer.accelerator.device, trainer.args.ds3_gather_for_generation
    inputs = {"input_ids": torch.tensor(padded, device=device), "attention_mask": torch.tensor(mask, device=device)}
    held, logprobs = list[Any](), list[Any]()

    def keep(input_ids: Any, scores: Any) -> Any:  # the last id of each row was sampled from the logits that came before
        if held:
            before = (held.pop().float() / trainer.temperature).log_softmax(-1)
            logprobs.append(before.gather(-1, input_ids[:, -1:]).squeeze(-1))
        held.append(scores)
        return scores

    with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator, gather, override) as model, torch.no_grad():
        whole = model.generate(**inputs, generation_config=config, logits_processor=[keep])
        keep(whole, None)
    return list(zip(whole[:, width:].tolist(), torch.stack(logprobs, dim=1).tolist(), strict=True))
