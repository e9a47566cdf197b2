"""A server that answers as vLLM's and SGLang's do where ids go in and ids come out. It has no model: it follows a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Sample = Callable[[list[int]], list[int]]
"""Prompt ids to the ids that the model samples, with their stop."""


@contextmanager
def running(sample: Sample) -> Iterator[str]:
    """The server on a free port; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = {"/inference/v1/generate": generate, "/v1/completions": completions, "/generate": sglang}
            answer = json.dumps(answers[self.path](body, sample)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def cut(ids: list[int], limit: int, stops: list[int]) -> tuple[list[int], str]:
    """The ids up to the limit, and the finish reason."""
    ids = ids[:limit]
    return ids, "stop" if ids and ids[-1] in stops else "length"


def generate(body: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """vLLM, /inference/v1/generate."""
    wanted = body["sampling_params"]
    ids, reason = cut(sample(body["token_ids"]), wanted["max_tokens"], wanted["stop_token_ids"])
    content = [{"token": f"token_id:{token}", "logprob": -0.25, "bytes": None, "top_logprobs": []} for token in ids]
    choice = {"index": 0, "logprobs": {"content": content}, "finish_reason": reason, "token_ids": ids}
    return {"request_id": "r", "choices": [choice], "prompt_logprobs": None, "kv_transfer_params": None}


def completions(body: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """vLLM, /v1/completions with return_token_ids."""
    ids, reason = cut(sample(body["prompt"]), body["max_tokens"], body["stop_token_ids"])
    choice = {
        "index": 0,
        "text": "",
        "logprobs": {"token_logprobs": [-0.25] * len(ids), "tokens": [], "text_offset": [], "top_logprobs": None},
        "finish_reason": reason,
        "stop_reason": ids[-1] if reason == "stop" else None,
        "token_ids": ids,
        "prompt_token_ids": body["prompt"],
    }
    return {"id": "c", "object": "text_completion", "created": 0, "model": body["model"], "choices": [choice]}


def sglang(body: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """SGLang, /generate."""
    wanted = body["sampling_params"]
    ids, reason = cut(sample(body["input_ids"]), wanted["max_new_tokens"], wanted["stop_token_ids"])
    finish = {"type": reason, **({"matched": ids[-1]} if reason == "stop" else {"length": len(ids)})}
    logprobs = [[-0.25, token, None] for token in ids]
    about = {"id": "g", "finish_reason": finish, "prompt_tokens": len(body["input_ids"]), "output_token_logprobs": logprobs}
    return {"text": "", "output_ids": ids, "meta_info": about}
