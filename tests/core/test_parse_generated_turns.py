"""Generated turns through every backend that reads a model, with the parse contract: right or flagged, never wrong.

A few models and turns; all of them, 500 turns each, with ``--whole``.
"""

from __future__ import annotations

import pytest
import real_tokenizers
from generated_turns import Template, drawn, verdicts
from sampling import WHOLE

from rllm_renderer_core import resolve, select_backend
from rllm_renderer_core.errors import BackendUnavailableError, NoBackendError

BACKENDS = ("prime", "tinker", "fireworks", "minimax-m3", "tml", "chat-template")
FEW = ("Qwen/Qwen3.5-0.8B", "zai-org/GLM-5", "MiniMaxAI/MiniMax-M3", "openai/gpt-oss-20b", "google/gemma-4-E2B-it")
MODELS = [model for model, source in real_tokenizers.MODELS.items() if source.template is not None and (WHOLE or model in FEW)]
TURNS = 500 if WHOLE else 15
OTHERWISE = {("openai/gpt-oss-20b", "tml")}
"""Where upstream's parser reads a call as it is sampled, and not as the chat template writes it in history: flagged."""


def covers(backend, model):
    try:
        select_backend(model, backend=backend)
    except BackendUnavailableError:
        return True  # with a reason, which the test says
    except NoBackendError:
        return False
    return True


PAIRS = [(model, backend) for model in MODELS for backend in BACKENDS if covers(backend, model)]


@pytest.mark.parametrize(("model", "backend"), PAIRS)
def test_generated_turns_are_right_or_flagged(model, backend):
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    try:
        renderer = resolve(model, tokenizer, backend=backend, parity="off")
    except BackendUnavailableError as error:
        pytest.skip(f"not proved: {backend} doesn't serve {model} here: {str(error).splitlines()[0]}")
    template = Template(tokenizer)
    if not template.shows_calls:
        pytest.skip(f"nothing to read back: the template of {model} shows no calls")
    found = verdicts(template, renderer, drawn(model, TURNS), renderer.get_stop_token_ids())
    print(model, backend, dict(found))
    assert not found["wrong"] and found.total() > TURNS / 3
    if (model, backend) not in OTHERWISE:
        assert found["right"] + found["alike"] >= 0.95 * found.total()


def test_stops_of_a_chat_template_are_those_that_its_history_shows():
    model = "google/gemma-4-E2B-it"
    tokenizer = real_tokenizers.load(model)
    stops = tokenizer.convert_ids_to_tokens(
        resolve(model, tokenizer, backend="chat-template", parity="off").get_stop_token_ids()
    )
    assert {"<turn|>", "<|tool_response>"} <= set(stops)  # a turn of calls ends with the opener of their results
