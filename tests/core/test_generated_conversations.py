"""Generated conversations on every backend: rendered with everything in it, or a typed error that names a message.

Roles come in any order, developer and system messages anywhere, contents as text, parts, blank or absent, results without
calls, names and ids of all kinds. A sample of two models a backend; thousands of all with ``--whole``.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest
import real_tokenizers
from generated_conversations import conversation
from sampling import how_many
from served import covers, resolved

from rllm_renderer_core import MessageError, RendererError, RenderError, ToolError

EACH = how_many(60, 2_000)

MODELS = {
    "prime": (
        "Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "zai-org/GLM-5.1", "moonshotai/Kimi-K2.6", "deepseek-ai/DeepSeek-V3.1",
        "MiniMaxAI/MiniMax-M2", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "meta-llama/Llama-3.2-3B-Instruct",
    ),
    "tinker": (
        "Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "moonshotai/Kimi-K2.6", "deepseek-ai/DeepSeek-V3.1", "openai/gpt-oss-20b",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "meta-llama/Llama-3.1-8B-Instruct",
    ),
    "tml": ("Qwen/Qwen3-8B", "zai-org/GLM-5.2", "moonshotai/Kimi-K2.6"),
    "fireworks": ("zai-org/GLM-5.1", "MiniMaxAI/MiniMax-M2.7", "google/gemma-4-E2B-it", "Qwen/Qwen3.6-35B-A3B"),
    "minimax-m3": ("MiniMaxAI/MiniMax-M3",),
    "chat-template": (
        "Qwen/Qwen3.5-9B", "zai-org/GLM-5.2", "moonshotai/Kimi-K2.6", "deepseek-ai/DeepSeek-V3.1", "openai/gpt-oss-20b",
        "MiniMaxAI/MiniMax-M2.7", "meta-llama/Llama-3.2-3B-Instruct", "google/gemma-3-4b-it", "google/gemma-4-E2B-it",
        "mistralai/Ministral-3-14B-Reasoning-2512",
    ),
}  # fmt: skip
HERE = {backend: [model for model in models if covers(model, backend)][: how_many(2, 99)] for backend, models in MODELS.items()}
"""Two models a backend; all of them with ``--whole``."""


def outcome(renderer, tokenizer, case):
    """What became of it, in a word; text that begins with ``!`` is wrong."""
    try:
        ids = renderer.render_ids(case.messages, tools=case.tools, add_generation_prompt=case.opener)
    except RendererError as error:
        if isinstance(error, (MessageError, RenderError, ToolError)) and error.index is not None:
            return "refused"
        return f"!{type(error).__name__} without an index: {str(error).splitlines()[0]}"
    except BaseException as error:
        return f"!{type(error).__name__}: {error}"
    text = tokenizer.decode(ids, skip_special_tokens=False)
    lost = [word for word in case.words if word not in text and case.by_id.get(word, word) not in text]
    return f"!lost {lost}" if lost else "rendered"


@pytest.mark.parametrize("backend", [backend for backend, models in HERE.items() if models])
def test_everything_shows_or_an_error_names_it(backend, record_property):
    logging.getLogger("rllm_renderer").setLevel(logging.ERROR)
    told, wrong = Counter(), {}
    served = [(resolved(model, backend), real_tokenizers.load(model)) for model in HERE[backend]]
    for seed in range(EACH):
        renderer, tokenizer = served[seed % len(served)]
        found = outcome(renderer, tokenizer, conversation(seed))
        told[found[0] if found.startswith("!") else found] += 1
        if found.startswith("!"):
            wrong.setdefault(f"{renderer.name} {found[:160]}", seed)
    record_property("outcomes", f"{backend}: {dict(told)}")
    print(backend, [renderer.name for renderer, _ in served], dict(told))
    assert not wrong, "\n".join(f"seed {seed}: {what}" for what, seed in list(wrong.items())[:60])
    assert told["rendered"] > EACH / 20, "too few can be rendered to show anything"
