"""The patched gateway with many models: JSON and streams, in this process and in one of its own.

Sessions of eight turns with reasoning, parallel calls, arguments that the client broke and a turn that was cut off. What
reaches the client is what was scripted, the ids are one segment, and what each bridge adds is what the official template puts
there. One model by default; all with ``--whole``.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pathlib
import sys

import pytest
import real_tokenizers
import rllm_source
import scripted_rollout as script
from sampling import WHOLE

from rllm_renderer_core import resolve, select_backend

pytestmark = [
    # DeepSeek V3.1's renderer differs from its template in how it declares tools, which is said.
    pytest.mark.filterwarnings("ignore::rllm_renderer_core.errors.RendererWarning"),
]

MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3.5-9B",
    "zai-org/GLM-5",
    "zai-org/GLM-5.2",
    "MiniMaxAI/MiniMax-M3",
    "deepseek-ai/DeepSeek-V4-Flash",
    "moonshotai/Kimi-K2.6",
    "deepseek-ai/DeepSeek-V3.1",
    "meta-llama/Llama-3.1-8B-Instruct",
)
LAUNCHER = """
import sys, transformers, real_tokenizers
transformers.AutoTokenizer.from_pretrained = lambda name, *_, **__: real_tokenizers.load(name)
from rllm_model_gateway.server import main
sys.argv = ["rllm-model-gateway", *sys.argv[1:]]
main()
"""
ONE_CALL = {"meta-llama/Llama-3.1-8B-Instruct"}
BROKEN = '{"q": "boa'
BROKEN_AFTER = 3
"""The turn whose one call the client sends back with arguments that aren't JSON."""


def play(url, session, *, stream, turns):
    """A session; the client's messages when each turn was asked for, and its answers."""
    import openai

    messages, asked, answers, ids = [], [], [], []
    with openai.OpenAI(base_url=f"{url}/sessions/rollout-{session}/v1", api_key="none", max_retries=0, timeout=300) as client:
        for turn, scripted in enumerate(turns):
            messages += script.arriving(session, turn, ids, turns)
            asked.append(copy.deepcopy(messages))
            answer = client.chat.completions.create(model="m", messages=messages, tools=script.TOOLS, stream=stream)
            message = gathered(answer) if stream else answer.choices[0].message.model_dump(exclude_none=True)
            answers.append(copy.deepcopy(message))
            if scripted.calls and not message.get("tool_calls"):
                # The gateway of rLLM's main returns text alone after the first turn: then the client reads the calls itself.
                message["tool_calls"] = [made_up(turn, at, *call) for at, call in enumerate(scripted.calls)]
            if turn == BROKEN_AFTER:
                message["tool_calls"][0]["function"]["arguments"] = BROKEN
            messages.append(message)
            ids = [call["id"] for call in message.get("tool_calls") or ()]
    return asked, answers


def made_up(turn, at, name, q):
    return {
        "id": f"mine-{turn}-{at}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps({"q": q})},
    }


def gathered(chunks):
    """A stream as one message."""
    out = {"role": "assistant", "content": ""}
    for chunk in chunks:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta.model_dump(exclude_none=True)
        out["content"] += delta.get("content") or ""
        if delta.get("reasoning_content"):
            out["reasoning_content"] = out.get("reasoning_content", "") + delta["reasoning_content"]
        if delta.get("tool_calls"):
            out["tool_calls"] = [{key: value for key, value in call.items() if key != "index"} for call in delta["tool_calls"]]
    return out


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


@pytest.fixture(scope="module")
def importable(changed):
    """The patched gateway in this process."""
    place = str(changed / rllm_source.GATEWAY.parent)
    sys.path.insert(0, place)
    for name in [name for name in sys.modules if name.partition(".")[0] == "rllm_model_gateway"]:
        del sys.modules[name]
    yield changed
    sys.path.remove(place)


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("process_of_its_own", [False, True], ids=["thread", "process"])
@pytest.mark.parametrize("model", MODELS if WHOLE else MODELS[:1], ids=lambda model: model.split("/")[1])
def test_a_session_reaches_the_client_as_scripted(importable, process_of_its_own, model, stream, record_property):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    found = select_backend(model)
    if found.match == "fallback":
        pytest.skip(f"no installed plugin serves {model}")
    renderer = resolve(model, tokenizer, require_bridge=True)
    turns = script.ONE_CALL_TURNS if model in ONE_CALL else script.TURNS
    worker = script.Worker(renderer, turns=turns)
    with (
        script.Served(worker.app()) as worker_url,
        served(importable, process_of_its_own, model, renderer, worker_url) as url,
    ):
        asked, answers = play(url, 0, stream=stream, turns=turns)
    record_property("renderer", f"{renderer.backend}:{renderer.name}")
    # One segment: only the first turn was rendered by the worker, and each prompt continues prompt and completion.
    assert [entry["path"] for entry in worker.log] == ["chat"] + ["completions"] * (len(turns) - 1)
    for turn in range(1, len(turns)):
        before = worker.log[turn - 1]["prompt"] + script.completion(renderer, turn - 1, turns)
        assert worker.log[turn]["prompt"][: len(before)] == before
        added = worker.log[turn]["prompt"][len(before) :]
        official = template_ids(tokenizer, asked[turn])
        assert official is None or official[-len(added) :] == added, turn
    structured = rllm_source.unified(importable)
    for turn, (scripted, answer) in enumerate(zip(turns, answers, strict=True)):
        if turn and not structured:
            assert scripted.says in answer["content"], turn
            assert not thinks(renderer) or scripted.thinks in answer["content"], turn
            continue
        calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in answer.get("tool_calls", ())]
        assert calls == [(name, {"q": q}) for name, q in scripted.calls], turn
        said, thought = answer.get("content") or "", (answer.get("reasoning_content") or "").strip()
        if unreachable(renderer, scripted):
            assert scripted.says in (said, thought), turn
            continue
        assert said == scripted.says, turn
        assert thought == (scripted.thinks if thinks(renderer) else ""), turn


def unreachable(renderer, scripted):
    """Whether the opener has begun reasoning that the scripted turn doesn't have: then its text is sampled as reasoning."""
    prompt = renderer.render_ids([{"role": "user", "content": "?"}], add_generation_prompt=True)
    tail = renderer.tokenizer.decode(prompt[-3:])
    return not scripted.thinks and "<think>" in tail and "</think>" not in tail


def thinks(renderer):
    """Whether the format has reasoning."""
    return not renderer.name.replace("-", "").startswith(("llama3", "deepseekv3"))


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
            call["function"]["arguments"] = text if as_text else {} if text == BROKEN else json.loads(text)
        out.append(message)
    try:
        text = tokenizer.apply_chat_template(out, tools=script.TOOLS, add_generation_prompt=True, tokenize=False)
    except Exception:
        # Some templates refuse results without a name, which no client of OpenAI's sends.
        named = [{**each, "name": names[each["tool_call_id"]]} if each["role"] == "tool" else each for each in out]
        text = tokenizer.apply_chat_template(named, tools=script.TOOLS, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)
