"""The contract's own test class, with what each of upstream's classes can do; the reference is the official template."""

from __future__ import annotations

import pytest
import tml_oracle as oracle
from rllm_renderer_template import SeamBridge
from rllm_renderer_template.parity.probes import Probe

from rllm_renderer_core.testing import RendererConformance


class _Tml(RendererConformance):
    oracle = SeamBridge
    name: str
    examples = 4

    @classmethod
    def case(cls):
        return next(case for case in oracle.CASES if case.renderer == cls.name)

    @pytest.fixture
    def renderer(self):
        return oracle.resolved(self.name, self.case().model)

    def reference(self, messages, tools, add_generation_prompt):
        if add_generation_prompt and messages[-1]["role"] == "assistant":
            raise LookupError("templates disagree about an opener behind an assistant's turn")
        expected = oracle.official(self.case(), Probe("given", tuple(messages), add_generation_prompt, tools))
        if expected is None:
            raise LookupError("the template refuses")
        return expected


@pytest.mark.whole
class TestQwen3(_Tml):
    name = "Qwen3"


@pytest.mark.whole
class TestQwen3Instruct(_Tml):
    name = "Qwen3.instruct"
    reasoning = False


@pytest.mark.whole
class TestQwen35(_Tml):
    name = "Qwen35"
    system_in_new = False


@pytest.mark.whole
class TestQwen35WithoutThinking(_Tml):
    name = "Qwen35.disable_thinking"
    system_in_new = False


@pytest.mark.whole
class TestQwen38(_Tml):
    name = "Qwen38"
    system_in_new = False


@pytest.mark.whole
class TestDeepSeekV3(_Tml):
    name = "DeepSeekV3"
    results = False
    declarations = False
    reasoning = False
    system_in_new = False


@pytest.mark.whole
class TestDeepSeekV31(_Tml):
    name = "DeepSeekV31"
    declarations = False
    reasoning = False
    system_in_new = False


@pytest.mark.whole
class TestDeepSeekV4(_Tml):
    name = "DeepSeekV4"


@pytest.mark.whole
class TestGlm52(_Tml):
    name = "Glm52"


@pytest.mark.whole
class TestKimiK25(_Tml):
    name = "KimiK25"


@pytest.mark.whole
class TestNemotron3(_Tml):
    name = "Nemotron3"


@pytest.mark.whole
class TestGptOss(_Tml):
    name = "GptOss"
    parallel_calls = False
    stop_token = False  # past turns are closed with <|end|>
    system_in_new = False

    def reference(self, messages, tools, add_generation_prompt):
        if any(message["role"] == "tool" or message.get("tool_calls") for message in messages):
            raise LookupError("behind calls the reference is harmony, not the template")
        return super().reference(messages, tools, add_generation_prompt)


@pytest.mark.whole
class TestInkling(_Tml):
    name = "v0"
