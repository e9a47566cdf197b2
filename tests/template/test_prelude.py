"""What transformers no longer hands over to a template is put back, whichever version is installed."""

from __future__ import annotations

import copy
import functools

import pytest
import real_tokenizers
from rllm_renderer_template.chat_template.prelude import CLOCK, clock
from rllm_renderer_template.parity.probes import FIVE, ONE_CALL, OPENING

from rllm_renderer_core import RenderError, resolve

pytest.importorskip("transformers")

DATES = ("openai/gpt-oss-20b", "meta-llama/Llama-3.2-3B-Instruct")


def renderer_of(tokenizer, model):
    dated = {"date": "2031-03-04"} if CLOCK in tokenizer.chat_template else {}
    return resolve(model, tokenizer, backend="chat-template", parity="off", detect=False, **dated)


@functools.cache
def tokenizer_of(model):
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    return real_tokenizers.load(model)


@pytest.fixture
def strict_of():
    """A tokenizer that hands over no ``None`` and no function, as transformers does from 5.2x on."""

    def make(model):
        real = tokenizer_of(model)

        class Strict(type(real)):
            def apply_chat_template(self, conversation, **more):
                more = {key: f"<{type(value).__name__}>" if callable(value) else value for key, value in more.items()}
                kept = [{key: value for key, value in message.items() if value is not None} for message in conversation]
                return super().apply_chat_template(kept, **more)

        strict = copy.copy(real)
        strict.__class__ = Strict
        return strict

    return make


def test_calls_of_deepseek_v3_are_rendered(strict_of):
    model = "deepseek-ai/DeepSeek-V3"
    for messages in ([*OPENING, ONE_CALL], [*OPENING, ONE_CALL, FIVE]):
        ids = renderer_of(tokenizer_of(model), model).render_ids(messages)
        assert "look" in tokenizer_of(model).decode(ids)
        assert renderer_of(strict_of(model), model).render_ids(messages) == ids


@pytest.mark.parametrize("model", DATES)
def test_the_day_of_the_resolution_is_printed(strict_of, model):
    messages = list(OPENING)
    ids = renderer_of(tokenizer_of(model), model).render_ids(messages, add_generation_prompt=True)
    assert "2031" in tokenizer_of(model).decode(ids)
    assert renderer_of(strict_of(model), model).render_ids(messages, add_generation_prompt=True) == ids


def test_a_form_that_the_template_doesnt_name_is_an_error(strict_of):
    tokenizer = strict_of("Qwen/Qwen3-8B")
    source = f"{{% set form = '%' ~ 'Y' %}}{{{{ {CLOCK}(form) }}}}{{{{ messages[0].content }}}}"
    tokenizer.chat_template = source
    with pytest.raises(RenderError, match="forms alone that the template names"):
        renderer_of(tokenizer, "my/model").render_ids([OPENING[0]])
    assert "%Y" not in clock(source, str)
