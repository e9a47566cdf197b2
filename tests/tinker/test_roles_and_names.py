"""What a format has no place for is refused with its index; text behind reasoning keeps its blank, as the template has it."""

from __future__ import annotations

import pytest
import real_tokenizers
from served import covers, resolved

from rllm_renderer_core import MessageError

ROLELESS = [
    ("Qwen/Qwen3-8B", "tinker"),
    ("Qwen/Qwen3.5-9B", "tinker"),
    ("openai/gpt-oss-20b", "tinker"),
    ("Qwen/Qwen3.6-35B-A3B", "fireworks"),
    ("MiniMaxAI/MiniMax-M2.7", "fireworks"),
]
KIMI = "moonshotai/Kimi-K2.6"
NEMOTRON = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
QUESTION = {"role": "user", "content": "How many?"}


def on(model, backend):
    if not covers(model, backend):
        pytest.skip(f"{backend} doesn't serve {model} here")
    return resolved(model, backend)


def official(model, messages):
    return list(real_tokenizers.load(model).apply_chat_template(messages, tokenize=True, return_dict=False))


@pytest.mark.parametrize("role", ["critic", "function"])
@pytest.mark.parametrize(("model", "backend"), ROLELESS)
def test_a_role_that_the_template_doesnt_have_is_refused_with_its_index(model, backend, role):
    with pytest.raises(MessageError, match=repr(role)) as refused:
        on(model, backend).render_ids([QUESTION, {"role": role, "content": "look again"}, QUESTION])
    assert refused.value.index == 1


@pytest.mark.parametrize("role", ["critic", "function", "developer"])
@pytest.mark.parametrize(("model", "backend"), [(KIMI, "tinker"), (KIMI, "fireworks"), (NEMOTRON, "tinker")])
def test_a_role_that_the_template_writes_as_it_is_equals_the_template(model, backend, role):
    messages = [QUESTION, {"role": role, "content": "look again"}, QUESTION]
    assert on(model, backend).render_ids(messages) == official(model, messages)


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
@pytest.mark.parametrize("backend", ["tinker", "fireworks", "tml"])
def test_a_name_that_kimis_template_shows_is_refused_where_it_would_be_dropped(backend, role):
    renderer = on(KIMI, backend)
    with pytest.raises(MessageError, match="has a name") as refused:
        renderer.render_ids([QUESTION, {"role": role, "content": "four", "name": "Bob"}, QUESTION])
    assert refused.value.index == 1


@pytest.mark.parametrize(
    "content", ["</think> ans", "<think>why</think> ans", "A </think> B </think> C ", " \n why</think>\n\n ans\n"]
)
@pytest.mark.parametrize(
    ("model", "backend"),
    [("Qwen/Qwen3.5-9B", "tinker"), ("Qwen/Qwen3.6-35B-A3B", "tinker"), ("Qwen/Qwen3.6-35B-A3B", "fireworks")],
)
def test_text_behind_inline_reasoning_keeps_its_blank_as_in_the_template(model, backend, content):
    renderer = on(model, backend)
    for behind in ([], [QUESTION]):
        messages = [QUESTION, {"role": "assistant", "content": content}, *behind]
        assert renderer.render_ids(messages) == official(model, messages)
