"""The core's conformance kit on prime, with the official template as the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import shapes
from rllm_renderer_template import SeamBridge
from sampling import how_many

from rllm_renderer_core.testing import RendererConformance


class OnPrime(RendererConformance):
    """What the classes below share."""

    oracle = SeamBridge
    model = ""
    examples = how_many(10, 40)

    @pytest.fixture
    def renderer(self, prime: Callable[..., Any]) -> Any:
        type(self).tokenizer = prime(self.model).tokenizer
        return prime(self.model)

    tokenizer: Any = None

    def reference(self, messages: Any, tools: Any, add_generation_prompt: bool) -> Sequence[int]:
        text_of = shapes.template_text(self.tokenizer)
        return shapes.encode(self.tokenizer, text_of(messages, tools, add_generation_prompt))


class TestQwen3(OnPrime):
    model = "Qwen/Qwen3-8B"


@pytest.mark.whole
class TestQwen35(OnPrime):
    model = "Qwen/Qwen3.5-9B"
    system_in_new = False


@pytest.mark.whole
class TestGLM5(OnPrime):
    model = "zai-org/GLM-5"


@pytest.mark.whole
class TestMiniMaxM2(OnPrime):
    model = "MiniMaxAI/MiniMax-M2.7"
    system_in_new = False


@pytest.mark.whole
class TestLlama32(OnPrime):
    model = "meta-llama/Llama-3.2-3B-Instruct"
    parallel_calls = False
    reasoning = False


class TestGptOss(OnPrime):
    model = "openai/gpt-oss-20b"
    stop_token = False  # past turns are closed by <|end|>
    reference = None
