"""The patched gateway with many models: JSON and streams, in this process and in one of its own.

Sessions of eight turns with reasoning, parallel calls and a turn that was cut off. What reaches the client is what was
scripted, the ids are one segment, and what each bridge adds is what the official template puts there. One model by default; all
with ``--whole``.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pathlib
import sys

import pytest
import real_tokenizers
import scripted_rollout as script
from sampling import WHOLE
from scripted_client import check_answer, play

from rllm_renderer_core import resolve, select_backend

pytestmark = [
    # DeepSeek V3.1's renderer differs from its template in how it declares tools, which is said.
    pytest.mark.filterwarnings("ignore::rllm_renderer_core.errors.RendererWarning"),
]

LAUNCHER = """
import sys, transformers, real_tokenizers
transformers.AutoTokenizer.from_pretrained = lambda name, *_, **__: real_tokenizers.load(name)
from rllm_model_gateway.server import main
sys.argv = ["rllm-model-gateway", *sys.argv[1:]]
main()
"""


@contextlib.contextmanager
def served(changed, process_of_its_own, model, renderer, worker_url):
    """The URL of the patched gateway, with this renderer, or in a process that finds its own."""
    if process_of_its_own:
        from test_processes import GatewayProcess

        class Launched(GatewayProcess):
            command = ("-c", LAUNCHER)

        arguments = ("--model", model, "--cumulative-token-mode", "--worker", f"{worker_url}/v1")
        with Launched(changed, *arguments) as gateway:
            assert gateway.ready(), "the gateway process did not start"
            yield gateway.url
        return
    from rllm_model_gateway import GatewayConfig, create_app

    config = GatewayConfig(
        workers=[{"url": f"{worker_url}/v1", "worker_id": "w0"}],
        health_check_interval=999,
        sync_traces=True,
        cumulative_token_mode=True,
        model=model,
    )
    with script.Served(create_app(config, renderer=renderer)) as url:
        yield url


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("process_of_its_own", [False, True], ids=["thread", "process"])
@pytest.mark.parametrize("model", script.MODELS if WHOLE else script.MODELS[:1], ids=lambda model: model.split("/")[1])
def test_a_session_reaches_the_client_as_scripted(gateway, changed, process_of_its_own, model, stream, record_property):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    found = select_backend(model)
    if found.match == "fallback":
        pytest.skip(f"no installed plugin serves {model}")
    renderer = resolve(model, tokenizer, require_bridge=True)
    turns = script.turns_of(model)
    worker = script.Worker(renderer, turns=turns)
    with (
        script.Served(worker.app()) as worker_url,
        served(changed, process_of_its_own, model, renderer, worker_url) as url,
    ):
        played = play(url, 0, stream=stream, turns=turns)
    record_property("renderer", f"{renderer.backend}:{renderer.name}")
    # One segment: only the first turn was rendered by the worker, and each prompt continues prompt and completion.
    assert [entry["path"] for entry in worker.log] == ["chat"] + ["completions"] * (len(turns) - 1)
    for turn in range(1, len(turns)):
        before = worker.log[turn - 1]["prompt"] + script.completion(renderer, turn - 1, turns)
        assert worker.log[turn]["prompt"][: len(before)] == before
        added = worker.log[turn]["prompt"][len(before) :]
        official = template_ids(tokenizer, played.asked[turn])
        assert official is None or official[-len(added) :] == added, turn
    for scripted, answer in zip(turns, played.answers, strict=True):
        check_answer(renderer, scripted, answer)


def template_ids(tokenizer, messages):
    """What the official template makes of a conversation, with what templates want that clients don't send."""
    if getattr(tokenizer, "chat_template", None) is None:
        return None
    names, out = {}, []
    for message in copy.deepcopy(messages):
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
            text = call["function"]["arguments"]
            # DeepSeek's template puts the text itself together, others want a mapping.
            as_text = "tool['function']['arguments']" in tokenizer.chat_template
            call["function"]["arguments"] = text if as_text else json.loads(text)
        out.append(message)
    try:
        text = tokenizer.apply_chat_template(out, tools=script.TOOLS, add_generation_prompt=True, tokenize=False)
    except Exception:
        # Some templates refuse results without a name, which no client of OpenAI's sends.
        named = [{**each, "name": names[each["tool_call_id"]]} if each["role"] == "tool" else each for each in out]
        text = tokenizer.apply_chat_template(named, tools=script.TOOLS, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)
