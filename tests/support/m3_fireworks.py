"""The Fireworks cookbook's MiniMax-M3 renderer. As a script: cases as JSON on stdin, its prompt ids as JSON on stdout.

A script, because importing the cookbook changes a registry that other tests in the same process read.
"""

from __future__ import annotations

import json
import sys


def build(tokenizer, thinking_mode):
    """``ids(messages, tools)`` of the cookbook's renderer; raises ImportError where the cookbook is missing."""
    from tinker_cookbook.renderers.base import ToolCall
    from training.renderer.minimax_m3 import MiniMaxM3Renderer

    renderer = MiniMaxM3Renderer(tokenizer, thinking_mode=thinking_mode)

    def ready(message):
        content = message.get("content") or ""
        if message.get("reasoning_content") is not None:
            thinking = {"type": "thinking", "thinking": message["reasoning_content"]}
            content = [thinking, {"type": "text", "text": content}]
        out = {"role": message["role"], "content": content}
        if message.get("tool_calls"):
            calls = [call["function"] for call in message["tool_calls"]]
            texts = [c["arguments"] if isinstance(c["arguments"], str) else json.dumps(c["arguments"]) for c in calls]
            out["tool_calls"] = [
                ToolCall(function=ToolCall.FunctionBody(name=c["name"], arguments=t)) for c, t in zip(calls, texts, strict=True)
            ]
        return out

    def ids(messages, tools=None):
        messages = [ready(message) for message in messages]
        if tools:
            text = ""
            if messages and messages[0]["role"] in ("system", "developer"):
                text, messages = messages[0]["content"], messages[1:]
            functions = [tool["function"] for tool in tools]
            messages = [*renderer.create_conversation_prefix_with_tools(functions, text), *messages]
        return list(renderer.build_generation_prompt(messages).to_ints())

    return ids


def main():
    import m3_tokenizer

    cases = json.load(sys.stdin)
    tokenizer = m3_tokenizer.load()
    try:
        renderers = {mode: build(tokenizer, mode) for mode in {case["mode"] for case in cases}}
    except ImportError as error:
        json.dump({"missing": f"the Fireworks cookbook can't be imported: {error}"}, sys.stdout)
        return
    json.dump({"ids": [renderers[case["mode"]](case["messages"], case["tools"]) for case in cases]}, sys.stdout)


if __name__ == "__main__":
    main()
