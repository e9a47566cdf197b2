"""As much of a gateway as rLLM's has to do with a renderer, for tests without rLLM's repository.

The first turn of a session goes to the worker as it is. Later turns are bridged in a pool of threads, one at a time in a
session, sampled from ids, and parsed with their prompt and tools; where a bridge is declined, the worker renders again. What a
renderer refuses is an answer of OpenAI's form.
"""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_rllm import http_status, openai_error

from rllm_renderer_core import RendererError


@dataclass
class Session:
    """The ids of the turn before, and how many messages they hold."""

    prompt: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    messages: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def app(renderer: Any, worker: str) -> Any:
    """A gateway in front of the worker at this URL."""
    import httpx
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

    out, sessions, pool = FastAPI(), {}, ThreadPoolExecutor(4)

    async def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{worker}/v1/{path}", json=body)
        answer.raise_for_status()
        return dict(answer.json())

    async def in_pool(function: Any, *arguments: Any, **more: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, functools.partial(function, *arguments, **more))

    async def chat(request: Request) -> Any:
        body = await request.json()
        session = sessions.setdefault(request.path_params["name"], Session())
        async with session.lock:
            return await turn(session, body["messages"], body.get("tools"), body)

    async def turn(session: Session, messages: list[Any], tools: Any, body: dict[str, Any]) -> Any:
        bridged = None
        if session.prompt:
            answered, *new = messages[session.messages :]
            bridged = await in_pool(
                renderer.bridge_to_next_turn,
                session.prompt,
                session.sampled,
                new,
                tools=tools,
                previous_message=answered if answered.get("tool_calls") else None,
            )
        else:
            # What it can't render is refused here, whatever the worker would make of it.
            await in_pool(renderer.render_ids, messages, tools=tools, add_generation_prompt=True)
        if bridged is None:
            answer = await post("chat/completions", body)
        else:
            answer = await post("completions", {"prompt": list(bridged.token_ids)})
        choice = answer["choices"][0]
        session.prompt, session.sampled = answer["prompt_token_ids"], choice.pop("token_ids")
        session.messages = len(messages)
        if bridged is not None:
            parsed = await in_pool(renderer.parse_response, session.sampled, tools=tools, prompt_ids=session.prompt)
            choice.pop("text")
            choice["message"] = parsed.to_message()
            answer["object"] = "chat.completion"
        choice.pop("logprobs", None)
        return JSONResponse(answer)

    async def refused(request: Request, error: Any) -> Any:
        return JSONResponse(openai_error(error), http_status(error))

    chat.__annotations__["request"] = Request
    out.post("/sessions/{name}/v1/chat/completions")(chat)
    out.exception_handler(RendererError)(refused)
    return out
