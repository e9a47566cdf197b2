"""Models on backends: which pairs there are here, and what ``resolve`` makes of one, once a session."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

import real_tokenizers
import sampling
import shapes

from rllm_renderer_core import RendererError, RendererWarning, resolve, select_backend
from rllm_renderer_core.errors import UnsupportedToolsError

BACKENDS = ("prime", "tinker", "tml", "fireworks", "minimax-m3", "chat-template")
ONE_A_FORMAT = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3.5-9B",
    "deepseek-ai/DeepSeek-V3.1",
    "deepseek-ai/DeepSeek-V4-Flash",
    "zai-org/GLM-5",
    "MiniMaxAI/MiniMax-M2.7",
    "MiniMaxAI/MiniMax-M3",
    "openai/gpt-oss-20b",
    "meta-llama/Llama-3.2-3B-Instruct",
    "google/gemma-4-E2B-it",
    "moonshotai/Kimi-K2.6",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
)
"""A model of each format of turns and calls."""


def models(*, template: bool = False) -> list[str]:
    """The models to test: one a format, all under ``--whole``; with ``template``, those that have an official one."""
    here = [model for model in real_tokenizers.here() if not template or real_tokenizers.MODELS[model].template is not None]
    return sampling.chosen(here, ONE_A_FORMAT)


@functools.cache
def covers(model: str, backend: str) -> bool:
    """Whether the backend serves the model here; no tokenizer is loaded for that."""
    if real_tokenizers.missing(model):
        return False
    if backend == "chat-template":
        return real_tokenizers.MODELS[model].template is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RendererWarning)
            select_backend(model, backend=backend)
    except RendererError:
        return False
    return True


def pairs(few: Iterable[tuple[str, str]], backends: Iterable[str] = BACKENDS) -> list[tuple[str, str]]:
    """Model and backend, of those pairs that exist here: the ``few``, or every one under ``--whole``."""
    every = [(model, backend) for model in real_tokenizers.MODELS for backend in backends]
    return [pair for pair in (every if sampling.WHOLE else few) if covers(*pair)]


@functools.cache
def resolved(model: str, backend: str | None = None, **options: Any) -> Any:
    """What ``resolve`` returns for the model on the backend, made once for these options; parity isn't checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RendererWarning)
        return resolve(model, real_tokenizers.load(model), backend=backend, parity="off", **options)


def shown_tools(renderer):
    """The declarations, or ``None`` for a format that has no place for them."""
    try:
        renderer.render_ids([shapes.user("ping")], tools=shapes.TOOLS)
    except UnsupportedToolsError:
        return None
    return shapes.TOOLS
