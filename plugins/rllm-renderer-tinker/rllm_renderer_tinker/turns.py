"""Assistant turns as the official templates write them, for the rows of the table that hand upstream the finished text.

Each function takes a message in normal form and where it stands, and returns the text between the role's header and the close
of the turn. The rules are those of the templates named; JSON is printed as Jinja's ``tojson`` does in transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rllm_renderer_core.errors import MessageError

Message = dict[str, Any]
Turn = Callable[[Message, bool, bool], str]
"""Message, whether it stands behind the last query, whether it is the last message; to its text."""


def tojson(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def qwen3(message: Message, current: bool, last: bool) -> str:
    """Qwen3: reasoning is shown behind the last query, where there is some or the turn is the last one."""
    content: str = message["content"]
    reasoning: str = message.get("reasoning_content", "")
    if current and (last or reasoning):
        before = "<think>\n" + reasoning.strip("\n") + "\n</think>\n\n" + content.lstrip("\n")
    else:
        before = content
    return before + _json_calls(message, content)


def qwen3_instruct(message: Message, current: bool, last: bool) -> str:
    """Qwen3-Instruct-2507: no reasoning."""
    content: str = message["content"]
    return content + _json_calls(message, content)


def qwen3_5(message: Message, current: bool, last: bool) -> str:
    """Qwen3.5: a reasoning block, be it empty, in each turn behind the last query; calls as XML."""
    content: str = message["content"]
    reasoning = message.get("reasoning_content", "").strip()
    block = f"<think>\n{reasoning}\n</think>\n\n" if current else ""
    calls = "\n".join(_xml_call(call) for call in message.get("tool_calls", ()))
    return block + content + ("\n\n" if content and calls else "") + calls


def qwen3_5_preserved(message: Message, current: bool, last: bool) -> str:
    """Qwen3.6 with ``preserve_thinking``: the block in every turn."""
    return qwen3_5(message, True, last)


def qwen3_8(message: Message, current: bool, last: bool) -> str:
    """Qwen3.8 behind its reasoning block: arguments that aren't text are JSON."""
    content: str = message["content"]
    calls = "\n".join(_xml_call(call, scalars=tojson) for call in message.get("tool_calls", ()))
    return content + ("\n\n" if content and calls else "") + calls


def nemotron3(message: Message, current: bool) -> Message:
    """Nemotron 3: a reasoning block in every turn, emptied before the last user's message.

    Upstream writes the empty block itself, and trims text but not lists of parts. So the message goes as parts where its white
    space counts.
    """
    content: str = message["content"]
    reasoning = message.get("reasoning_content", "") if current else ""
    calls = "".join(_xml_call(call) + "\n" for call in message.get("tool_calls", ()))
    out = {key: value for key, value in message.items() if key not in ("reasoning_content", "tool_calls")}
    if reasoning.strip() and calls:
        return {**out, "reasoning_content": reasoning, "content": parts((content.rstrip() + "\n").lstrip("\n") + calls)}
    if reasoning.strip():
        return {**out, "content": f"<think>\n{reasoning}\n</think>\n{content}".strip()}
    if current and "</think>" in content and "<think>" not in content:
        raise MessageError(
            f"message {message.get('_index')} (assistant) closes reasoning that it doesn't open, which upstream can't write",
            fix="give the reasoning as reasoning_content",
            index=message.get("_index"),
        )
    if current and ("<think>" in content or "</think>" in content):
        return {**out, "content": parts(content.strip() + "\n" + calls) if calls else content.strip()}
    dropped = not current and message.get("reasoning_content", "").strip()
    shown = ("\n" if dropped else "") + content.split("</think>")[-1]
    shown = shown if current else shown.strip() if calls else shown
    return {**out, "content": parts(shown.rstrip() + ("\n" + calls if calls else ""))}


def parts(text: str) -> list[dict[str, str]]:
    """The text as a list of one part, which upstream doesn't trim."""
    return [{"type": "text", "text": text}]


def deepseek_v3_1(message: Message, current: bool, last: bool) -> str:
    """DeepSeek V3.1: calls behind the content, their arguments as the text that they are. No reasoning, in the text neither."""
    calls = "".join(
        f"<｜tool▁call▁begin｜>{call['function']['name']}<｜tool▁sep｜>{call['function']['arguments']}<｜tool▁call▁end｜>"
        for call in message.get("tool_calls", ())
    )
    content: str = message["content"].split("</think>", 1)[-1]
    return content + (f"<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>" if calls else "")


def _json_calls(message: Message, content: str) -> str:
    calls = [call["function"] for call in message.get("tool_calls", ())]
    texts = [
        f'<tool_call>\n{{"name": "{call["name"]}", "arguments": {tojson(json.loads(call["arguments"]))}}}\n</tool_call>'
        for call in calls
    ]
    return ("\n" if content and texts else "") + "\n".join(texts)


def _xml_call(call: dict[str, Any], scalars: Callable[[Any], str] = str) -> str:
    """A call as Qwen3.5 writes it; numbers, booleans and null as Jinja's ``string`` filter prints them, or as JSON."""
    function = call["function"]

    def printed(value: Any) -> str:
        if isinstance(value, str):
            return value
        return tojson(value) if isinstance(value, (dict, list)) else scalars(value)

    parameters = "".join(
        f"<parameter={name}>\n{printed(value)}\n</parameter>\n" for name, value in json.loads(function["arguments"]).items()
    )
    return f"<tool_call>\n<function={function['name']}>\n{parameters}</function>\n</tool_call>"
