"""An agent behind a chat client: it knows no ids and sends its whole conversation at each turn. ``sync`` finds what is new.

    python examples/chat_client.py

The agent drops reasoning and writes arguments in its own spacing, as clients do, and compacts its history in the end.
"""

from __future__ import annotations

import json
from typing import Any

import scripted_model
from rllm_renderer_training import Rollout

from rllm_renderer_core import resolve


class Server:
    """Chat completions over one rollout: messages in, a message out."""

    def __init__(self) -> None:
        vocabulary = scripted_model.tokenizer()
        self.rollout = Rollout(resolve(scripted_model.MODEL, vocabulary, require_bridge=True))
        self._sample = scripted_model.sampler(vocabulary)

    def chat(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        ids = self._sample(self.rollout.sync(messages, tools=scripted_model.TOOLS))
        parsed = self.rollout.record(ids, [-0.25] * len(ids), finish_reason="stop")
        message: dict[str, Any] = {"role": "assistant", "content": parsed.content or None}
        if parsed.runnable:
            message["tool_calls"] = [dict(call) for call in parsed.runnable]
        return message


def agent(server: Server) -> None:
    messages: list[dict[str, Any]] = [scripted_model.QUESTION]
    while True:
        said = server.chat(messages)
        for call in said.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=2)
        messages.append(said)
        if "tool_calls" not in said:
            break
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in said["tool_calls"]]
    server.chat([{"role": "user", "content": f"So far: {said['content']} And tomorrow?"}])


def main() -> None:
    server = Server()
    agent(server)
    for number, segment in enumerate(server.rollout.segments):
        why = f": {server.rollout.declines[number - 1].reason}" if number else ""
        print(f"segment {number + 1}, {len(segment.turns)} sampled turns{why}")


if __name__ == "__main__":
    main()
