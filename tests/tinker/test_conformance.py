"""The contract's own test class, with what each renderer can and can't do; the reference is the official template."""

from __future__ import annotations

import pytest
import tinker_oracle as oracle
from rllm_renderer_template import SeamBridge

from rllm_renderer_core.testing import RendererConformance


class _Tinker(RendererConformance):
    oracle = SeamBridge
    name: str
    examples = 6

    @pytest.fixture
    def renderer(self):
        return oracle.resolved_renderer(self.name, self.case().model)

    @classmethod
    def case(cls):
        return next(case for case in oracle.ALL if case.renderer == cls.name)


class _WithReference(_Tinker):
    def reference(self, messages, tools, add_generation_prompt):
        if add_generation_prompt and messages[-1]["role"] == "assistant":
            raise LookupError("templates disagree about an opener behind an assistant's turn")
        expected = oracle.expected_ids(self.case(), messages, tools, add_generation_prompt)
        if expected is None:
            raise LookupError("the template refuses")
        return expected


class TestQwen3(_WithReference):
    name = "qwen3"


@pytest.mark.whole
class TestQwen3Instruct(_WithReference):
    name = "qwen3_instruct"
    reasoning = False


@pytest.mark.whole
class TestQwen3_5(_WithReference):
    name = "qwen3_5"
    system_in_new = False


@pytest.mark.whole
class TestQwen3_8(_WithReference):
    name = "qwen3_8_xhigh_reasoning"
    system_in_new = False

    def reference(self, messages, tools, add_generation_prompt):
        if not add_generation_prompt and messages[-1]["role"] == "assistant":
            raise LookupError("upstream encodes the prefilled part of a last turn's block apart")
        return super().reference(messages, tools, add_generation_prompt)


@pytest.mark.whole
class TestDeepSeekV3_1(_WithReference):
    name = "deepseekv3"
    reasoning = False
    system_in_new = False


@pytest.mark.whole
class TestLlama3(_Tinker):
    name = "llama3"
    declarations = calls = results = False
    reasoning = False


class TestGptOss(_WithReference):
    name = "gpt_oss_medium_reasoning"
    parallel_calls = False
    stop_token = False  # past turns are closed with <|end|>


@pytest.mark.whole
class TestKimiK26(_WithReference):
    name = "kimi_k26"


@pytest.mark.whole
class TestNemotron3(_WithReference):
    name = "nemotron3"


@pytest.mark.whole
class TestGlm5_3(_Tinker):
    name = "glm5_3_max_reasoning"


@pytest.mark.whole
class TestDeepSeekV4_1(_Tinker):
    name = "deepseekv4_1"
    system_in_new = False
