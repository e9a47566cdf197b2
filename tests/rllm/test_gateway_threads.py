"""The patched gateway's threads, and what its workers are asked: a turn is sampled from what it was planned from.

A scripted renderer waits where it is told to, so that requests meet as they rarely do; a worker notes what it was asked.
"""

from __future__ import annotations

import json

import pytest

SCRIPT = '''
import asyncio, json, threading
import httpx
import scripted_rollout as script
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from rllm_model_gateway import GatewayConfig, create_app
from rllm_renderer_core import ParsedResponse, RenderedTokens

SAID, PROMPT, CALLS = [104, 105, 0], [1, 2], [{"type": "function", "function": {"name": "f"}}]
U = lambda text: {"role": "user", "content": text}
A = {"role": "assistant", "content": "hi"}

class Renderer:
    """Ids are letters; a message that is a gate's name waits until the gate opens."""
    gates, began, parsing, loop_answered = {}, {}, threading.Event(), threading.Event()
    copies, free = [], None

    def copy(self):
        self.copies.append(Renderer())
        return self.copies[-1]

    def bridge_to_next_turn(self, prompt, completion, new, *, tools=None, previous_message=None):
        text = new[-1]["content"]
        if text in self.gates:
            self.began[text].set()
            assert self.gates[text].wait(20)
        users.append(self)
        return RenderedTokens([*prompt, *completion, *map(ord, text)])

    def parse_response(self, ids, *, tools=None, prompt_ids=None):
        self.parsing.set()
        Renderer.free = self.loop_answered.wait(5)
        users.append(self)
        return ParsedResponse(content="parsed", reasoning_content="thought")

users, seen, asked = [], [], []
worker = FastAPI()

async def chat(request: Request):
    asked.append(await request.json())
    return answer("message", {"role": "assistant", "content": "hi"}, "chat.completion")

async def completions(request: Request):
    asked.append(await request.json())
    seen.append(asked[-1]["prompt"])
    return answer("text", "hi", "text_completion")

def answer(key, what, kind):
    logprobs = {"content": [{"logprob": -1.0}] * 3} if key == "message" else {"token_logprobs": [-1.0] * 3}
    choice = {"index": 0, key: what, "finish_reason": "stop", "token_ids": SAID, "logprobs": logprobs}
    more = {} if key == "text" else {"prompt_token_ids": PROMPT}
    return {"id": "x", "object": kind, "created": 0, "model": "m", "choices": [choice], "usage": {}, **more}

worker.post("/v1/chat/completions")(chat)
worker.post("/v1/completions")(completions)

def gateway(url, threads, **more):
    workers = [{"url": f"{url}/v1", "worker_id": "w"}]
    options = dict(health_check_interval=999, sync_traces=True, cumulative_token_mode=True, bridge_threads=threads, **more)
    return create_app(GatewayConfig(workers=workers, **options), renderer=Renderer())

async def race(url):
    """B is planned before A is answered, and its thread is free only afterwards."""
    Renderer.gates = {name: threading.Event() for name in ("first", "second")}
    Renderer.began = {name: threading.Event() for name in ("first", "second")}
    async with httpx.AsyncClient(timeout=60) as client:
        post = lambda name, *messages: client.post(
            f"{url}/sessions/{name}/v1/chat/completions", json={"model": "m", "messages": messages}
        )
        for name in ("s", "x", "y"):
            await post(name, U("one"))
        turn = lambda name, text: asyncio.create_task(post(name, U("one"), A, U(text)))
        tasks = []
        for name, text in (("x", "first"), ("s", "BRANCH-A"), ("y", "second"), ("s", "BRANCH-B")):
            tasks.append(turn(name, text))
            await asyncio.sleep(0.1)  # in this order
        Renderer.gates["first"].set()
        assert (await tasks[1]).status_code == 200
        await asyncio.sleep(0.2)  # what A said is known
        Renderer.gates["second"].set()
        statuses = [(await task).status_code for task in tasks]
    return {"statuses": statuses, "prompts": ["".join(map(chr, ids[2:])) for ids in seen]}

async def at_once(url):
    """Two sessions' bridges at the same time."""
    Renderer.gates, Renderer.began = {"gate": threading.Event()}, {"gate": threading.Event()}
    users.clear()
    async with httpx.AsyncClient(timeout=60) as client:
        post = lambda name, *messages, **more: client.post(
            f"{url}/sessions/{name}/v1/chat/completions", json={"model": "m", "messages": messages, **more}
        )
        await post("p", U("one")), await post("q", U("one"))
        long = asyncio.create_task(post("p", U("one"), A, U("gate")))
        await asyncio.to_thread(Renderer.began["gate"].wait, 20)
        short = await asyncio.wait_for(post("q", U("one"), A, U("short")), 20)  # doesn't wait for the other
        waited = long.done()
        Renderer.gates["gate"].set()
        assert (await long).status_code == short.status_code == 200
        own = len({id(each) for each in users})
        # The loop goes on while a completion is parsed.
        parsing = asyncio.create_task(post("q", U("one"), A, U("short"), A, U("calls"), tools=CALLS))
        parsed = await asyncio.to_thread(Renderer.parsing.wait, 3)
        if parsed:
            await asyncio.wait_for(client.get(f"{url}/health"), 20)
            Renderer.loop_answered.set()
        message = (await parsing).json()["choices"][0]["message"]
    return {"waited": waited, "renderers": own, "parsed": parsed, "free": Renderer.free, "message": message}

def restarted(app):
    statuses = []
    for name in ("m", "n"):
        with TestClient(app, raise_server_exceptions=False) as client:
            for messages in ([U("one")], [U("one"), A, U("two")]):
                body = {"model": "m", "messages": messages}
                statuses.append(client.post(f"/sessions/{name}/v1/chat/completions", json=body).status_code)
    return statuses

out = {}
with script.Served(worker) as url:
    with script.Served(gateway(url, 1)) as one:
        out["race"] = asyncio.run(race(one))
    with script.Served(gateway(url, 2)) as two:
        out["at once"] = asyncio.run(at_once(two))
    before = len(seen)
    out["restarted"] = restarted(gateway(url, 2))
    out["bridged"] = len(seen) - before
    asked.clear()
    restarted(gateway(url, 1, disable_thinking=True))
    out["switched"] = [(set(body) & {"prompt", "messages"}, body.get("chat_template_kwargs")) for body in asked]
print(json.dumps(out, default=list))
'''


@pytest.fixture(scope="module")
def found(changed, process, tmp_path_factory):
    """What the script saw."""
    file = tmp_path_factory.mktemp("threads") / "threads.py"
    file.write_text(SCRIPT)
    result = process("-W", "ignore", file)
    assert result.returncode == 0, result.stderr[-4000:]
    return json.loads(result.stdout.splitlines()[-1])


def test_a_turn_is_sampled_from_the_state_that_it_was_planned_from(found):
    """Two branches of a session while the threads are busy: neither has the other's messages or answer."""
    assert found["race"]["statuses"] == [200] * 4
    assert sorted(found["race"]["prompts"]) == ["hi\0BRANCH-A", "hi\0BRANCH-B", "hi\0first", "hi\0second"]


def test_threads_that_bridge_at_once_have_a_renderer_each(found):
    assert found["at once"]["waited"] is False
    assert found["at once"]["renderers"] == 2


def test_a_completion_is_parsed_off_the_event_loop(found):
    assert found["at once"]["free"] is True
    message = found["at once"]["message"]
    assert (message["content"], message["reasoning_content"]) == ("parsed", "thought")


def test_a_gateway_that_is_stopped_and_started_bridges_again(found):
    assert (found["restarted"], found["bridged"]) == ([200] * 4, 2)


def test_a_worker_renders_the_first_turn_without_thinking_where_the_bridge_has_none(found):
    off = {"enable_thinking": False, "thinking": False}
    assert found["switched"] == [[["messages"], off], [["prompt"], None]] * 2
