"""The chat-template backend under the conformance suite, on real tokenizers."""

from __future__ import annotations

from typing import ClassVar

import pytest
import real_tokenizers
import shapes
from rllm_renderer_template import SeamBridge
from served import resolved

from rllm_renderer_core.testing import RendererConformance


class ChatTemplate(RendererConformance):
    oracle = SeamBridge
    model: ClassVar[str]
    marker_text = "control"
    examples = 12

    @pytest.fixture
    def renderer(self):
        if why := real_tokenizers.missing(self.model):
            pytest.skip(why)
        return resolved(self.model, "chat-template")

    def reference(self, messages, tools, add_generation_prompt):
        tokenizer = real_tokenizers.load(self.model)
        text_of = shapes.template_text(tokenizer)
        return shapes.encode(tokenizer, text_of(messages, tools, add_generation_prompt))


class TestQwen3(ChatTemplate):
    model = "Qwen/Qwen3-8B"


@pytest.mark.whole
class TestGLM5(ChatTemplate):
    model = "zai-org/GLM-5"


class TestLlama32(ChatTemplate):
    model = "meta-llama/Llama-3.2-3B-Instruct"
    parallel_calls = False  # the template raises for two calls in a turn
    reasoning = False
