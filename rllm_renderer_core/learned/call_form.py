"""How a chat template wants an assistant's calls handed to it: learned by rendering one, never assumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import RenderError
from ..types import Message


class CallForm:
    """How this template wants an assistant's calls: learned by rendering one, never assumed.

    Arguments go as text only where the template prints them as they are and would print a mapping as the same JSON;
    content beside calls goes as ``""`` or ``None``, whichever shows the call and doesn't print "None".
    """

    _NAME = "look_zq"
    _VALUE = "zq9"

    def __init__(self, *, as_text: bool, empty: str | None, beside_text: bool, why_not: str | None) -> None:
        self.as_text = as_text
        self.empty = empty
        self.beside_text = beside_text
        self.why_not = why_not

    @classmethod
    def learn(cls, text_of: Callable[[list[Message]], str]) -> CallForm:
        why = "the chat template shows no tool calls"
        for empty in ("", None):
            shown = {}
            for spacing in ("text", "compact", "mapping"):
                try:
                    shown[spacing] = text_of(cls._probe(spacing, empty))
                except Exception as error:
                    why = f"the chat template refuses tool calls: {type(error).__name__}: {error}"
            shown = {key: value for key, value in shown.items() if cls._NAME in value and "None" not in value}
            raw = json.dumps({"q": cls._VALUE}, separators=(",", ":"))
            as_text = "compact" in shown and raw in shown["compact"]
            if "mapping" in shown and as_text:
                as_text = shown["mapping"] in (shown.get("text"), shown["compact"])
            if not as_text and "mapping" not in shown:
                continue
            form = cls(as_text=as_text, empty=empty, beside_text=True, why_not=None)
            try:
                beside = text_of(form.fit([{**cls._probe("text", "")[0]}, {**cls._probe("text", "")[1], "content": "pong"}]))
            except Exception:
                beside = ""
            form.beside_text = cls._NAME in beside and "pong" in beside
            return form
        return cls(as_text=False, empty="", beside_text=False, why_not=why)

    @classmethod
    def _probe(cls, spacing: str, empty: str | None) -> list[Message]:
        value = {"q": cls._VALUE}
        arguments: Any = value
        if spacing != "mapping":
            arguments = json.dumps(value) if spacing == "text" else json.dumps(value, separators=(",", ":"))
        # Kimi's templates show the id alone, which has the name in it.
        call = {"id": f"functions.{cls._NAME}:0", "type": "function", "function": {"name": cls._NAME, "arguments": arguments}}
        return [{"role": "user", "content": "ping"}, {"role": "assistant", "content": empty, "tool_calls": [call]}]

    def fit(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with their calls in this form.

        Raises:
            RenderError: The template can't show the calls; dropping them would render another conversation.
        """
        return [self._fit(index, m) if m.get("tool_calls") else m for index, m in enumerate(messages)]

    def _fit(self, index: int, message: Message) -> Message:
        if self.why_not is not None:
            raise RenderError(f"message {index} has tool calls, and {self.why_not}")
        content: Any = message["content"]
        if not content:
            content = self.empty
        elif not self.beside_text:
            raise RenderError(f"message {index} has text beside tool calls, and the chat template shows only one of them")
        calls = message["tool_calls"]
        if not self.as_text:
            calls = [
                {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
                for call in calls
            ]
        return {**message, "content": content, "tool_calls": calls}
