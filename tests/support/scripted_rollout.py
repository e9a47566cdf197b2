"""Sessions as an agent has them, in rLLM's gateway: a script, and a worker that samples from it. See scripted_client.

Every text of a session says which session and turn it is of, ``[s3 t2]``, so that the worker can read from the prompt alone
what to sample next, whatever path the prompt took. What it samples isn't how the tokenizer would encode the text: one word of
each completion comes letter by letter, so that text that is encoded again gives other ids.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rllm_renderer_rllm import http_status, openai_error
from rllm_renderer_training import UnreachableTurnError
from rllm_renderer_training.sequences.supervised import supervised

from rllm_renderer_core import RendererError

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
"""Models of whose formats sessions are played."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        },
    }
    for name, description in (("look", "Looks something up"), ("count", "Counts"))
]


@dataclass(frozen=True)
class Turn:
    """What arrives (a user's text, or results of the calls of the turn before), and what the model says to it."""

    arrives: str | None
    says: str = ""
    thinks: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    cut_off: bool = False


TURNS = (
    Turn("How many lids, and where?", "", "Two things to find", (("look", "lids"), ("count", "lids"))),
    Turn(None, "There are seven lids, all beside the harbour.", "Both results agree"),
    Turn("And the boats?", "", "Another lookup then", (("look", "boats"),)),
    Turn(None, "Counting them, which takes a moment.", "", (("count", "boats"),)),
    Turn(None, "Eleven boats were counted.", "That was all"),
    Turn("Describe them at length.", "Painted wooden boats with narrow", "A long answer", cut_off=True),
    Turn("Go on, and look twice.", "Looking twice.", "Same tool twice", (("look", "hulls"), ("look", "masts"))),
    Turn(None, "Slender masts above rounded hulls.", "Done"),
)
ONE_CALL_TURNS = tuple(replace(turn, says="" if turn.calls else turn.says, calls=turn.calls[:1]) for turn in TURNS)
"""For formats with one call a turn, and no text beside it."""


def turns_of(model: str) -> tuple[Turn, ...]:
    """The script for a model."""
    return ONE_CALL_TURNS if "Llama-3.1" in model else TURNS


STEP = re.compile(r"\[s(\d+) t(\d+)\]")


def arriving(session: int, turn: int, ids: list[str], turns: Sequence[Turn] = TURNS) -> list[dict[str, Any]]:
    """The new messages of a turn; ``ids`` are those of the calls that it answers. Results come without names."""
    text = turns[turn].arrives
    if text is not None:
        return [{"role": "user", "content": f"{text} [s{session} t{turn}]"}]
    calls = turns[turn - 1].calls
    assert len(calls) == len(ids), f"the client got {len(ids)} calls of {len(calls)}"
    return [
        {"role": "tool", "tool_call_id": call_id, "content": f"{name} of {q}: {len(q)} [s{session} t{turn}]"}
        for call_id, (name, q) in zip(ids, calls, strict=True)
    ]


def completion(renderer: Any, turn: int, turns: Sequence[Turn] = TURNS) -> list[int]:
    """The ids that the model samples in a turn, with its stop unless it is cut off."""
    renderer = getattr(renderer, "resolved", renderer)
    known = _completions.setdefault(renderer, {})
    script = turns[turn]
    if script not in known:
        known[script] = _sampled(renderer, script)
    return list(known[script])


_completions: weakref.WeakKeyDictionary[Any, dict[Turn, list[int]]] = weakref.WeakKeyDictionary()
ASKED = [{"role": "user", "content": "?"}]


def _sampled(renderer: Any, script: Turn) -> list[int]:
    said: dict[str, Any] = {"role": "assistant", "content": script.says}
    if script.calls:
        # As a model of Kimi numbers its calls; other formats show no ids.
        said["tool_calls"] = [
            {"id": f"functions.{name}:{at}", "type": "function", "function": {"name": name, "arguments": {"q": q}}}
            for at, (name, q) in enumerate(script.calls)
        ]
    thinking = {**said, "reasoning_content": script.thinks} if script.thinks else said
    bare = _spoken(renderer, said)
    ids = _spoken(renderer, thinking) or bare or _rendered(renderer, said)
    thought = renderer.tokenizer.encode(script.thinks, add_special_tokens=False)
    if script.thinks and ids is bare and bare is not None and renderer.tokenizer.decode(bare[:1]) == "</think>":
        ids = thought + bare  # the history of this format leaves out what the model says all the same
    stops = set(renderer.get_stop_token_ids())
    end = next((at for at, token in enumerate(ids) if token in stops), len(ids))
    return spelled_out(renderer.tokenizer, ids[:end] if script.cut_off else ids[: end + 1])


def _spoken(renderer: Any, said: dict[str, Any]) -> list[int] | None:
    """What ``supervised`` proves that the model samples; ``None`` where it can't say this message behind its prompt."""
    prompt = renderer.render_ids(ASKED, tools=TOOLS, add_generation_prompt=True)
    try:
        (example,) = supervised(renderer, [*ASKED, said], tools=TOOLS)
    except (UnreachableTurnError, ValueError):
        return None
    return example.token_ids[len(prompt) :] if example.token_ids[: len(prompt)] == prompt else None


def _rendered(renderer: Any, said: dict[str, Any]) -> list[int]:
    """What history shows of it, where the opener has begun reasoning that it lacks: its text is sampled as reasoning."""
    prompt = renderer.render_ids(ASKED, tools=TOOLS, add_generation_prompt=True)
    whole = renderer.render_ids([*ASKED, said], tools=TOOLS)
    shared = next((at for at, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), min(len(prompt), len(whole)))
    assert shared >= len(prompt) - 3, "the rendered turn isn't what the opener opens"
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "?"} for call in said.get("tool_calls", ())]
    followed = renderer.render_ids([*ASKED, said, *(results or ASKED)], tools=TOOLS)
    # Formats without a close end a turn with the tag of whoever speaks next.
    end = [token for token in followed[len(whole) : len(whole) + 1] if token in renderer.get_stop_token_ids()]
    return [*(whole[shared:] if shared == len(prompt) else whole[len(prompt) :]), *end]


def spelled_out(tokenizer: Any, ids: list[int]) -> list[int]:
    """The same text with its longest word letter by letter: what a model may sample and no encoder writes."""
    words = [tokenizer.decode([token]) for token in ids]
    at = max(range(len(ids)), key=lambda index: len(words[index]) if words[index].strip().isalpha() else 0)
    letters = [tokenizer.encode(letter, add_special_tokens=False) for letter in words[at]]
    assert all(len(each) == 1 for each in letters)
    return [*ids[:at], *[each[0] for each in letters], *ids[at + 1 :]]


@dataclass
class Worker:
    """A worker of vLLM's shape: renders chat requests itself, and samples from ids that it is given.

    Attributes:
        foreign_ids: Give calls ids as vLLM does, which nobody can know from the completion; else as the renderer does.
        turns: The script.
        log: One entry a request: its path, session, turn and prompt ids.
    """

    renderer: Any
    foreign_ids: bool = False
    turns: Sequence[Turn] = TURNS
    log: list[dict[str, Any]] = field(default_factory=list)

    def app(self) -> Any:
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse

        app = FastAPI()

        @app.get("/health")
        async def health() -> Any:
            return {"status": "ok"}

        async def chat(request: Request) -> Any:
            body = await request.json()
            messages = [_plain(each) for each in body["messages"]]
            try:
                prompt = self.renderer.render_ids(messages, tools=body.get("tools"), add_generation_prompt=True)
            except RendererError as error:
                return JSONResponse(openai_error(error), http_status(error))
            session, turn, sampled = self.sample("chat", prompt)
            parsed = self.renderer.parse_response(sampled, tools=body.get("tools"), prompt_ids=prompt)
            message = parsed.to_message()
            for at, call in enumerate(message.get("tool_calls") or () if self.foreign_ids else ()):
                call["id"] = f"chatcmpl-tool-{session}-{turn}-{at}"
            reason = "length" if self.turns[turn].cut_off else "tool_calls" if parsed.tool_calls else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason, "token_ids": sampled}
            choice["logprobs"] = {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []} for _ in sampled]}
            if body.get("stream"):
                choice["delta"] = choice.pop("message")
                for at, call in enumerate(choice["delta"].get("tool_calls") or ()):
                    call["index"] = at
                return events("chat.completion.chunk", choice, prompt, sampled)
            return JSONResponse(
                {"id": f"chat-{session}-{turn}", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
                | {"prompt_token_ids": prompt, "usage": _usage(prompt, sampled)}
            )

        async def complete(request: Request) -> Any:
            body = await request.json()
            prompt = body["prompt"]
            session, turn, sampled = self.sample("completions", prompt)
            reason = "length" if self.turns[turn].cut_off else "stop"
            stops = self.renderer.get_stop_token_ids()
            text = self.renderer.tokenizer.decode(sampled[:-1] if sampled[-1] in stops else sampled)
            choice = {"index": 0, "text": text, "finish_reason": reason, "token_ids": sampled}
            choice["logprobs"] = {"token_logprobs": [-0.5] * len(sampled), "token_ids": sampled}
            if body.get("stream"):
                return events("text_completion", choice, prompt, sampled)
            return JSONResponse(
                {"id": f"cmpl-{session}-{turn}", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}
                | {"prompt_token_ids": prompt, "usage": _usage(prompt, sampled)}
            )

        # Annotations are text here, which FastAPI would look up in the module.
        for path, handler in (("/v1/chat/completions", chat), ("/v1/completions", complete)):
            handler.__annotations__["request"] = Request
            app.post(path)(handler)
        return app

    def sample(self, path: str, prompt: list[int]) -> tuple[int, int, list[int]]:
        """Session, turn and the completion, by what the prompt says; noted in ``log``."""
        session, turn = map(int, STEP.findall(self.renderer.tokenizer.decode(prompt))[-1])
        self.log.append({"path": path, "session": session, "turn": turn, "prompt": list(prompt)})
        return session, turn, completion(self.renderer, turn, self.turns)


def events(kind: str, choice: dict[str, Any], prompt: list[int], sampled: list[int]) -> Any:
    """A response as a stream of vLLM's: the whole text in one event, its end in another."""
    from fastapi.responses import StreamingResponse

    head = {"id": "stream", "object": kind, "created": 0, "model": "m"}
    ended = {"index": 0, "finish_reason": choice["finish_reason"]} | ({"text": ""} if "text" in choice else {"delta": {}})
    parts = [
        head | {"prompt_token_ids": prompt, "choices": [choice | {"finish_reason": None}]},
        head | {"choices": [ended], "usage": _usage(prompt, sampled)},
    ]
    lines = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return StreamingResponse(iter([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a lenient worker takes it: text alone."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return {**message, "content": content if isinstance(content, str) else str(content or "")}


def _usage(prompt: list[int], sampled: list[int]) -> dict[str, int]:
    return {"prompt_tokens": len(prompt), "completion_tokens": len(sampled), "total_tokens": len(prompt) + len(sampled)}


def segments(traces: list[Any]) -> int:
    """How many unbroken sequences the traces of a session are."""
    count, before = 0, None
    for trace in traces:
        prompt = list(trace.prompt_token_ids)
        count += before is None or prompt[: len(before)] != before
        before = prompt + list(trace.completion_token_ids)
    return count


class Served:
    """An application on a free port of 127.0.0.1 for the length of a ``with`` block."""

    def __init__(self, app: Any) -> None:
        import uvicorn

        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_keep_alive=120))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self._server.started, "the server didn't start"
        return self.url

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=20)
        self._socket.close()
