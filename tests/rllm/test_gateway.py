"""rLLM's patched gateway with an injected renderer: sessions over HTTP on loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import real_tokenizers
import rllm_renderer_rllm as rllm
import scripted_rollout as script
from scripted_client import play

from rllm_renderer_core import resolve

pytestmark = pytest.mark.usefixtures("gateway")

CASES = {
    "prime": ("Qwen/Qwen3-8B", "renderers"),
    "minimax-m3": ("MiniMaxAI/MiniMax-M3", "rllm_renderer_minimax_m3"),
    "fireworks": ("deepseek-ai/DeepSeek-V4-Flash", "training.renderer"),
}


def importable(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


@pytest.fixture(params=CASES)
def renderer(request):
    """What the core's ``resolve`` returns, for a model of each kind of backend."""
    model, needed = CASES[request.param]
    if not importable(needed) or not importable(f"rllm_renderer_{request.param.replace('-', '_')}"):
        pytest.skip(f"{request.param} isn't here: {needed}")
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    out = resolve(model, real_tokenizers.load(model), backend=request.param, parity="off", require_bridge=True)
    assert out.backend == request.param
    return out


@contextlib.contextmanager
def served(renderer, worker_class=script.Worker, **options):
    """The gateway's URL and its worker."""
    from rllm_model_gateway import GatewayConfig, create_app

    worker = worker_class(renderer, **options)
    with script.Served(worker.app()) as worker_url:
        workers = [{"url": f"{worker_url}/v1", "worker_id": "w0"}]
        config = GatewayConfig(workers=workers, health_check_interval=999, sync_traces=True, cumulative_token_mode=True)
        with script.Served(create_app(config, renderer=renderer)) as url:
            yield url, worker


def traces_of(url, name):
    from rllm_model_gateway import GatewayClient

    client = GatewayClient(url)
    try:
        return client.get_session_traces(name)
    finally:
        client.close()


def check_session(worker, traces, session):
    """The whole claim: ids grow turn by turn by P + C, and a trainer gets one segment."""
    log = [entry for entry in worker.log if entry["session"] == session]
    assert [entry["turn"] for entry in log] == list(range(len(script.TURNS)))
    assert {entry["turn"] for entry in log if entry["path"] == "chat"} == {0}
    assert len(traces) == len(script.TURNS)
    for turn in range(1, len(script.TURNS)):
        before = log[turn - 1]["prompt"] + script.completion(worker.renderer, turn - 1)
        assert log[turn]["prompt"][: len(before)] == before
        assert list(traces[turn].prompt_token_ids) == log[turn]["prompt"]
    assert script.segments(traces) == 1


def test_session_of_eight_turns_is_one_segment(renderer):
    with served(renderer) as (url, worker):
        name = play(url, 0).name
        check_session(worker, traces_of(url, name), 0)


def test_cut_off_turn_gets_its_close_and_no_text_is_encoded_again(renderer):
    """What a worker that renders the messages would prompt with differs: the sampled ids aren't the encoder's."""
    with served(renderer) as (url, worker):
        play(url, 0)
    last = max((entry for entry in worker.log if entry["path"] == "completions"), key=lambda entry: entry["turn"])["prompt"]
    text = renderer.tokenizer.decode(last)
    assert renderer.tokenizer.encode(text, add_special_tokens=False) != last
    assert text.count("[s0 t") == 10


def test_results_are_paired_with_calls_whose_ids_only_the_server_knows(renderer):
    with served(renderer, foreign_ids=True) as (url, worker):
        name = play(url, 0).name
        check_session(worker, traces_of(url, name), 0)


def test_32_sessions_at_once(renderer):
    with served(renderer) as (url, worker):
        with ThreadPoolExecutor(32) as pool:
            names = list(pool.map(lambda session: play(url, session).name, range(32)))
        for session, name in enumerate(names):
            check_session(worker, traces_of(url, name), session)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
SPOILED = {
    "media": [{"type": "text", "text": "seen [s0 t1]"}, IMAGE],
    "weather": [{"type": "weather", "text": "wet [s0 t1]"}],
}
"""Contents that no renderer of text takes, by a word of the reason."""


@pytest.mark.parametrize("kind", SPOILED)
def test_tool_message_that_the_renderer_cant_take_is_a_reset_with_its_reason(renderer, kind, caplog):
    def spoil(turn, new):
        return [{**new[0], "content": SPOILED[kind]}, *new[1:]] if turn == 1 else new

    caplog.set_level(logging.INFO, logger="rllm_renderer")
    with served(renderer) as (url, worker):
        name = play(url, 0, turns=script.TURNS[:3], spoil=spoil).name  # an HTTP error would raise
        traces = traces_of(url, name)
    # Rendered by the worker at the turn of the bad message; from there on a sequence of its own.
    assert [entry["path"] for entry in worker.log] == ["chat", "chat", "completions"]
    assert len(traces) == 3
    declines = [record.getMessage() for record in caplog.records if "declined a bridge" in record.getMessage()]
    assert kind in declines[0] or (kind == "media" and "image_url" in declines[0])


def test_renderer_for_rllm_serves_the_gateway_too(renderer):
    forced = {"renderer_backend": renderer.backend, "parity": "off"}
    made = rllm.resolve(renderer.resolution.model, renderer.tokenizer, backend="verl", require_bridge=True, **forced)
    assert made.resolution == renderer.resolution
    with served(made.renderer) as (url, worker):
        name = play(url, 0).name
        check_session(worker, traces_of(url, name), 0)


NAMELESS, WHOLE = '{"arguments": {"q": "x"}}', '{"name": "look", "arguments": {"q": "lids"}}'


class WithNamelessCall(script.Worker):
    """Says a call without a name beside a whole one, in the turn that is bridged."""

    def sample(self, path, prompt):
        session, turn, sampled = super().sample(path, prompt)
        if turn == 3:
            calls = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in (NAMELESS, WHOLE))
            sampled = self.renderer.tokenizer.encode(f"{calls}<|im_end|>")
        return session, turn, sampled


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
def test_a_client_never_gets_a_call_without_a_name(stream):
    if why := real_tokenizers.missing("Qwen/Qwen3-8B"):
        pytest.skip(why)
    renderer = rllm.get_renderer("Qwen/Qwen3-8B", real_tokenizers.load("Qwen/Qwen3-8B"))
    with served(renderer, WithNamelessCall) as (url, _):
        answer = play(url, 0, turns=script.TURNS[:4], stream=stream).answers[3]
    assert [call["function"]["name"] for call in answer["tool_calls"]] == ["look"]
    assert NAMELESS in answer["content"]
