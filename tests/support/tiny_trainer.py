"""TRL's ``GRPOTrainer`` on a tiny random model with a real vocabulary, on CPU, that samples what a script says.

All is TRL's and transformers' own but for one line: ``torch.multinomial`` picks the script's id while the model generates,
whose log-probability is kept as it was sampled with. The weights are large, so that each id depends on all before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import real_tokenizers


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: One of them.
        b: The other one.
    """
    return a + b


def turns(renderer: Any, messages: list[dict[str, Any]], tools: Any) -> list[list[int]]:
    """What the model samples in each assistant turn of a conversation."""
    from rllm_renderer_training import supervised

    (example,) = supervised(renderer, messages, tools=tools, history="verbatim")
    runs: list[list[int]] = []
    before = 0.0
    for token, weight in zip(example.token_ids, example.weights, strict=True):
        if weight:
            if not before:
                runs.append([])
            runs[-1].append(token)
        before = weight
    return runs


def sum_of_two(renderer: Any, *, answers: bool = True) -> list[list[int]]:
    """A turn that calls ``add``, and one that answers."""
    from transformers.utils import get_json_schema

    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    talk = [
        {"role": "user", "content": "What is 1 + 2?"},
        {"role": "assistant", "content": "", "reasoning_content": "Let me add.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "3"},
        {"role": "assistant", "content": "It is 3.", "reasoning_content": "Done."},
    ]
    return turns(renderer, talk, [get_json_schema(add)])


def text(tokenizer: Any, *texts: str) -> list[list[int]]:
    return [tokenizer.encode(one, add_special_tokens=False) for one in texts]


@dataclass
class Sampled:
    """Of each call of ``generate`` the prompts, and each row's log-probabilities."""

    prompts: list[list[list[int]]] = field(default_factory=list)
    logprobs: list[list[list[float]]] = field(default_factory=list)


@contextlib.contextmanager
def scripted(model: Any, script: list[list[int]]) -> Iterator[Sampled]:
    """Call n of ``generate`` samples turn n of the script in each row; behind the last one it begins again."""
    import torch

    kept, own = Sampled(), model.generate

    def generate(*args: Any, **kwargs: Any) -> Any:
        turn = script[len(kept.prompts) % len(script)]
        steps: list[Any] = []

        def multinomial(probs: Any, num_samples: int = 1, **_: Any) -> Any:
            token = turn[len(steps)]
            steps.append(probs[:, token].log())
            return torch.full((len(probs), 1), token)

        mask = kwargs["attention_mask"].bool()
        kept.prompts.append([row[seen].tolist() for row, seen in zip(kwargs["input_ids"], mask, strict=True)])
        with mock.patch("torch.multinomial", multinomial):
            whole = own(*args, **kwargs)
        kept.logprobs.append(torch.stack(steps, dim=1).tolist())
        return whole

    with mock.patch.object(model, "generate", generate):
        yield kept


def tiny_model(tokenizer: Any, **config: Any) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    torch.set_num_threads(1)  # of a busy machine: threads that wait for each other take ten times as long
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8, "max_position_embeddings": 4096}
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "vocab_size": len(tokenizer) + 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.5}
    return Qwen3ForCausalLM(Qwen3Config(**{**sizes, **heads, **ids, **config}))


def tiny_trainer(model_name: str, folder: Any, *, model: Any = None, trainer: dict[str, Any] | None = None, **args: Any) -> Any:
    """A trainer of two generations a prompt; ``trainer`` are arguments of ``GRPOTrainer``, the others of ``GRPOConfig``."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = real_tokenizers.load(model_name)
    questions = ["What is 1 + 2?", "And what do you get for 1 + 2, please?"]
    rows = [{"prompt": [{"role": "user", "content": question}]} for question in questions]
    quiet: dict[str, Any] = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
    sizes: dict[str, Any] = {"per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 256}
    steps: dict[str, Any] = {"max_steps": 2, "logging_steps": 1, "gradient_checkpointing": False}
    return GRPOTrainer(
        model=tiny_model(tokenizer) if model is None else model,
        args=GRPOConfig(output_dir=str(folder), **{**quiet, **sizes, **steps, **args}),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        **{"reward_funcs": length, **(trainer or {})},
    )


def length(completions: Any, **_: Any) -> list[float]:
    """A reward that differs between rows of a group."""
    return [float(at % 2) for at in range(len(completions))]
