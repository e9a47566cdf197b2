"""A pytest plugin for rLLM's own tests: tokenizers from packages, and our wrapper in the place of their mock renderer.

``python -m pytest -p rllm_offline``. Where a test module has ``_MockRenderer``, it becomes a resolved renderer of a format that
gives the same ids, so that the module's assertions are about our objects.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
import types
from typing import Any

import real_tokenizers

from rllm_renderer_core import ParsedResponse, RenderedTokens
from rllm_renderer_core.plugin import Backend, Coverage, Match, Query
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

SAME_VOCABULARY = {"Qwen/Qwen3-0.6B": "Qwen/Qwen3-8B", "Qwen/Qwen3.5-35B-A3B": "Qwen/Qwen3.5-9B"}


class MockFormat:
    """The mock bridge of rLLM's tests. It renders nothing."""

    def render(self, messages: Any, *, tools: Any = None, add_generation_prompt: bool = False) -> RenderedTokens:
        raise NotImplementedError

    def render_ids(self, messages: Any, *, tools: Any = None, add_generation_prompt: bool = False) -> list[int]:
        raise NotImplementedError

    def parse_response(self, token_ids: Any, *, tools: Any = None, prompt_ids: Any = None) -> ParsedResponse:
        return ParsedResponse()

    def get_stop_token_ids(self) -> list[int]:
        return []

    def bridge_to_next_turn(
        self, p: Any, c: Any, new: Any, *, tools: Any = None, previous_message: Any = None
    ) -> RenderedTokens | None:
        text = next((message["content"] for message in reversed(new) if message["role"] == "user"), "")
        return RenderedTokens([*p, *c, 100, 10, 101, 1, 10, *map(ord, text[:3]), 100, 10, 101, 2, 10])


class MockBackend(Backend):
    name = "mock"
    priority = 1

    def create(self, query: Query, coverage: Coverage) -> MockFormat:
        return MockFormat()


class OurRenderer(ResolvedRenderer):
    """Made without arguments, and subclassed, as their mock is."""

    def __init__(self) -> None:
        coverage = Coverage("mock", Match.EXACT, True, "a format of rLLM's tests")
        resolution = Resolution("mock-model", "mock", "mock", "exact", True)
        super().__init__(MockBackend(), Query("mock-model"), coverage, resolution)


def load(name: str, *_: Any, **__: Any) -> Any:
    model = SAME_VOCABULARY.get(name, name)
    if model not in real_tokenizers.MODELS:
        raise OSError(f"no tokenizer {name} here")
    return real_tokenizers.load(model, name_or_path=name)


class DeploymentSampler:
    """As much of it as rLLM's engine touches on import."""

    def _inference_headers(self) -> dict[str, str]:
        return {}


def stand_in_for_fireworks() -> None:
    """The name that rLLM's engine imports from Fireworks' SDK, which is no public package."""
    if importlib.util.find_spec("fireworks") is None:
        for name in ("fireworks", "fireworks.training", "fireworks.training.sdk"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["fireworks.training.sdk"].DeploymentSampler = DeploymentSampler  # type: ignore[attr-defined]


def stand_in_for_verl() -> None:
    """The names that rLLM's engine imports from verl, which needs a GPU's packages: annotations alone."""
    if importlib.util.find_spec("verl") is None:
        for name in ("verl", "verl.workers", "verl.workers.rollout", "verl.workers.rollout.llm_server"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["verl.workers.rollout.llm_server"].LLMServerClient = object  # type: ignore[attr-defined]
        sys.modules["verl.workers.rollout.replica"] = types.ModuleType("verl.workers.rollout.replica")
        sys.modules["verl.workers.rollout.replica"].TokenOutput = object  # type: ignore[attr-defined]


def let_go_of_connections() -> None:
    """rLLM's tests, changed or not, leave some open, whose threads the interpreter would wait for at its end."""
    try:
        from aiosqlite import core
    except ImportError:
        return
    core.Thread = functools.partial(threading.Thread, daemon=True)  # type: ignore[attr-defined]


def pytest_configure(config: Any) -> None:
    import transformers

    stand_in_for_fireworks()
    let_go_of_connections()

    transformers.AutoTokenizer.from_pretrained = load
    try:
        from tinker_cookbook import tokenizer_utils
    except ImportError:
        return
    tokenizer_utils.get_tokenizer = load


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for module in {item.module for item in items if hasattr(item, "module")}:
        if hasattr(module, "_MockRenderer"):
            module._MockRenderer = OurRenderer
        if hasattr(module, "_load_cached_tokenizer"):
            module._load_cached_tokenizer = load
