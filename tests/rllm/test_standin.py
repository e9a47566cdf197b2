"""Our objects in a server, with no rLLM here: what its gateway asks of a renderer, over HTTP on loopback.

That rLLM's own gateway does the same is proved by test_gateway.py and test_matrix.py, which need its repository.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import real_tokenizers

pytest.importorskip("fastapi", reason="no server was run: fastapi isn't installed")
pytest.importorskip("uvicorn", reason="no server was run: uvicorn isn't installed")
openai = pytest.importorskip("openai", reason="no client was run: openai isn't installed")

import rllm_renderer_rllm as rllm  # noqa: E402
import scripted_rollout as script  # noqa: E402
import standin_gateway  # noqa: E402
from scripted_client import play  # noqa: E402

MODELS = ("Qwen/Qwen3-8B", "MiniMaxAI/MiniMax-M3")


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.split("/")[1])
def renderer(request):
    if why := real_tokenizers.missing(request.param):
        pytest.skip(why)
    return rllm.resolve(request.param, real_tokenizers.load(request.param), parity="off", require_bridge=True).renderer


@pytest.fixture
def served(renderer):
    """The gateway's URL, and its worker."""
    worker = script.Worker(renderer)
    with script.Served(worker.app()) as url, script.Served(standin_gateway.app(renderer, url)) as gateway:
        yield gateway, worker


def test_sessions_at_once_are_one_segment_each(served):
    url, worker = served
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda session: play(url, session), range(2)))
    for session in range(2):
        log = [entry for entry in worker.log if entry["session"] == session]
        assert [entry["path"] for entry in log] == ["chat"] + ["completions"] * (len(script.TURNS) - 1)
        for turn in range(1, len(log)):
            before = log[turn - 1]["prompt"] + script.completion(worker.renderer, turn - 1)
            assert log[turn]["prompt"][: len(before)] == before


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.mark.parametrize("content", [[IMAGE], 7], ids=["an image", "a number"])
def test_a_request_that_cant_be_rendered_is_a_400_in_openais_form(served, content):
    url, worker = served
    with (
        openai.OpenAI(base_url=f"{url}/sessions/bad/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": content}])
    assert caught.value.body["message"] and caught.value.body["type"] == "invalid_request_error"
    assert worker.log == []
