"""rLLM's gateway, as it is, with our renderer injected: sessions over HTTP on loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import real_tokenizers
import rllm_source
import scripted_rollout as script

rllm_source.importable()

import rllm_renderer_rllm as rllm  # noqa: E402
from rllm_model_gateway import GatewayClient, GatewayConfig, create_app, proxy  # noqa: E402
from rllm_model_gateway.token_accumulator import TokenAccumulator  # noqa: E402

from rllm_renderer_core import resolve  # noqa: E402

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


def passes_answered_turn():
    """Whether this gateway gives the bridge the turn that results answer: with the change of docs/rllm.md."""
    return "previous_message" in inspect.signature(TokenAccumulator.build_next_prompt).parameters


def returns_calls():
    """Whether this gateway returns calls, with ids, after the first turn; that of rLLM's main returns text alone."""
    return hasattr(proxy, "_assistant_message_from_completion")


@contextlib.contextmanager
def gateway(renderer, **options):
    """The gateway's URL and its worker."""
    worker = script.Worker(renderer, **options)
    with script.Served(worker.app()) as worker_url:
        config = GatewayConfig(
            workers=[{"url": f"{worker_url}/v1", "worker_id": "w0"}], health_check_interval=999, sync_traces=True
        )
        if "renderer" in inspect.signature(create_app).parameters:
            app = create_app(config, renderer=renderer)
        else:
            # As rLLM's own tests inject theirs.
            app = create_app(config)
            app.state.proxy.renderer = renderer
        app.state.proxy.cumulative_token_mode = True
        with script.Served(app) as url:
            yield url, worker


def traces_of(url, name):
    client = GatewayClient(url)
    try:
        return client.get_session_traces(name)
    finally:
        client.close()


def uncertain(renderer):
    """Turns at which this gateway can't know which result answers which call, and the format sorts results by their calls."""
    sorts = renderer.name == "deepseek_v4"
    return {7} if sorts and not passes_answered_turn() and not returns_calls() else set()


def check_session(worker, traces, session):
    """The whole claim: ids grow turn by turn by P + C, and a trainer gets one segment."""
    log = [entry for entry in worker.log if entry["session"] == session]
    resets = {0, *uncertain(worker.renderer)}
    assert [entry["turn"] for entry in log] == list(range(len(script.TURNS)))
    assert {entry["turn"] for entry in log if entry["path"] == "chat"} == resets
    assert len(traces) == len(script.TURNS)
    for turn in set(range(len(script.TURNS))) - resets:
        before = log[turn - 1]["prompt"] + script.completion(worker.renderer, turn - 1)
        assert log[turn]["prompt"][: len(before)] == before
        assert list(traces[turn].prompt_token_ids) == log[turn]["prompt"]
    assert script.segments(traces) == len(resets)


def test_session_of_eight_turns_is_one_segment(renderer):
    with gateway(renderer) as (url, worker):
        name = script.play(url, 0)
        check_session(worker, traces_of(url, name), 0)


def test_cut_off_turn_gets_its_close_and_no_text_is_encoded_again(renderer):
    """What a worker that renders the messages would prompt with differs: the sampled ids aren't the encoder's."""
    with gateway(renderer) as (url, worker):
        script.play(url, 0)
    last = max((entry for entry in worker.log if entry["path"] == "completions"), key=lambda entry: entry["turn"])["prompt"]
    text = renderer.tokenizer.decode(last)
    assert renderer.tokenizer.encode(text, add_special_tokens=False) != last
    assert text.count("[s0 t") == (10 if not uncertain(renderer) else 8)


def test_ids_of_the_server_are_enough_where_the_answered_turn_reaches_the_bridge(renderer):
    if not passes_answered_turn():
        pytest.skip("this gateway doesn't pass the answered turn to the bridge: see docs/rllm.md")
    with gateway(renderer, foreign_ids=True) as (url, worker):
        name = script.play(url, 0)
        check_session(worker, traces_of(url, name), 0)


def test_32_sessions_at_once(renderer):
    with gateway(renderer) as (url, worker):
        with ThreadPoolExecutor(32) as pool:
            names = list(pool.map(lambda session: script.play(url, session), range(32)))
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
    with gateway(renderer) as (url, worker):
        name = script.play(url, 0, turns=3, spoil=spoil)  # an HTTP error would raise
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
    with gateway(made.renderer) as (url, worker):
        name = script.play(url, 0)
        check_session(worker, traces_of(url, name), 0)


def test_client_never_gets_a_call_without_a_name():
    """The gateway gives the client every call of a parsed completion, whatever its status."""
    if not returns_calls():
        pytest.skip("the gateway of this revision returns text alone after the first turn")
    if why := real_tokenizers.missing("Qwen/Qwen3-8B"):
        pytest.skip(why)
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
    broken, whole = '{"arguments": {"q": "x"}}', '{"name": "look", "arguments": {}}'
    text = f"<tool_call>\n{broken}\n</tool_call>\n<tool_call>\n{whole}\n</tool_call><|im_end|>"
    renderer = rllm.get_renderer("Qwen/Qwen3-8B", tokenizer)
    message = proxy._assistant_message_from_completion(
        {"text": text}, tokenizer.encode(text), {"tools": script.TOOLS}, renderer
    )
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["look"]
    assert '"arguments": {"q": "x"}' in message["content"]
