"""MiniMax-M2's tools, default system text and edges, after the chat_template.jinja of M2 and M2.7; M3's attribution."""

from __future__ import annotations

import json
from typing import Any

from rllm_renderer_tinker.recording import twin_of
from rllm_renderer_tinker.rewrites import INDEX, MERGED

_BEFORE = """

# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
"""
_BEHIND = """</tools>

When making tool calls, use XML format to invoke tools and pass parameters:

<minimax:tool_call>
<invoke name="tool-name-1">
<parameter name="param-key-1">param-value-1</parameter>
<parameter name="param-key-2">param-value-2</parameter>
...
</invoke>
</minimax:tool_call>"""


class M2:
    """In front of the cookbook's ``minimax_m2``."""

    default_system_prompt: str
    tokenizer: Any

    def begin(self) -> None:
        """Each model of the family has a default system text of its own, which only its template knows."""
        text = _default_system(self.tokenizer)
        if text:
            self.default_system_prompt = text

    def create_conversation_prefix_with_tools(self, tools: list[Any], system_prompt: str = "") -> list[Any]:
        """The system message with the tools behind its text; the cookbook declares none."""
        lines = "".join(f"<tool>{json.dumps(tool, ensure_ascii=False)}</tool>\n" for tool in tools)
        return [{"role": "system", "content": (system_prompt or self.default_system_prompt) + _BEFORE + lines + _BEHIND}]

    def render_message(self, message: Any, ctx: Any) -> Any:
        """Header and text encoded together: the newline of the one and a newline that begins the other are one token."""
        spy = _Spy(self.tokenizer)
        rendered = super(M2, twin_of(self, {"tokenizer": spy})).render_message(message, ctx)  # type: ignore[misc]
        if rendered.header is None or len(rendered.output) != 1 or len(spy.texts) != 2:
            return rendered
        ids = self.tokenizer.encode("".join(spy.texts), add_special_tokens=False)
        header = list(rendered.header.tokens)
        at = next((i for i, (one, other) in enumerate(zip(header, ids, strict=False)) if one != other), len(header))
        chunk = type(rendered.header)
        return type(rendered)(header=chunk(tokens=ids[:at]), output=[chunk(tokens=ids[at:])])


class M3:
    """In front of the cookbook's ``minimax_m3``, which makes new messages of the results and of the system message."""

    def _group_tool_messages(self, messages: list[Any]) -> list[Any]:
        out: list[Any] = super()._group_tool_messages(messages)  # type: ignore[misc]
        runs = [at for at, m in enumerate(messages) if m["role"] == "tool" and (at == 0 or messages[at - 1]["role"] != "tool")]
        for group, at in zip((message for message in out if message["role"] == "tool"), runs, strict=True):
            group.update({key: messages[at][key] for key in (INDEX, MERGED) if key in messages[at]})
        return out

    def _preprocess_messages(self, messages: list[Any]) -> list[Any]:
        out: list[Any] = super()._preprocess_messages(messages)  # type: ignore[misc]
        developer = next((message for message in out if message["role"] == "developer"), None)
        if developer is not None and messages and messages[0]["role"] in ("system", "developer"):
            developer[INDEX] = messages[0].get(INDEX, -1)
        return out


class _Spy:
    """A tokenizer that notes what it encodes."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.texts: list[str] = []

    def encode(self, text: str, **options: Any) -> Any:
        self.texts.append(text)
        return self._tokenizer.encode(text, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def _default_system(tokenizer: Any) -> str | None:
    """What the tokenizer's template says where no system message is given, ``None`` where there is no such template."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    try:
        text = tokenizer.apply_chat_template([{"role": "user", "content": "ping"}], tokenize=False, add_generation_prompt=False)
    except Exception:  # a template of unknown make: the cookbook's own default stays
        return None
    _, opened, rest = str(text).partition("]~b]system\n")
    return rest.partition("[e~[")[0] if opened else None
