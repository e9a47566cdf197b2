"""How a chat template wants contents and an assistant's calls handed to it: learned by rendering some, never assumed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rllm_renderer_core.errors import RenderError
from rllm_renderer_core.probing.calls import ANSWER, KEY, NAME, QUESTION, TOOL, VALUE, call_ids, tool_call
from rllm_renderer_core.types import Message

TextOf = Callable[[Sequence[Message], "list[dict[str, Any]] | None"], str]
"""Messages and tools to text; raises where the template refuses them."""


_THOUGHTS = "thoughts"
"""What Apertus' template calls a block of reasoning."""


class TurnForm:
    """How this template wants messages, where tools are declared or where none are: some show calls only then, or have another
    form for it. ``text_of`` renders without a generation prompt."""

    def __init__(self, text_of: TextOf, declared: bool) -> None:
        self._text_of, self._declared = text_of, declared

    def fit(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages in this form.

        Raises:
            RenderError: The template can't show their calls.
        """
        if any(message.get("tool_calls") for message in messages):
            messages = self._calls.fit(messages)
        if any(message.get("reasoning_content") for message in messages) and self._takes_blocks:
            return [in_blocks(message) for message in messages]
        return self._in_parts(messages)

    def _in_parts(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [with_parts(message) for message in messages] if self._takes_parts else messages

    @cached_property
    def _calls(self) -> CallForm:
        return CallForm.learn(lambda probe, tools: self._text_of(self._in_parts(probe), tools), declared=self._declared)

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether this template shows contents as lists of parts alone; text is what it gets wherever it shows that."""
        conversation: list[Message] = [QUESTION, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": VALUE}]
        words = [str(message["content"]) for message in conversation]
        for parts in (False, True):
            text = self._shown([with_parts(message) if parts else message for message in conversation])
            if all(word in text for word in words):
                return parts
        return False

    @cached_property
    def _takes_blocks(self) -> bool:
        """Whether this template shows reasoning in blocks alone, as Apertus' does: a message's own key for it is dropped."""
        turn: Message = {"role": "assistant", "content": ANSWER, "reasoning_content": VALUE}
        plain, blocks = self._shown([QUESTION, turn]), self._shown([QUESTION, in_blocks(turn)])
        printed = blocks.count(_THOUGHTS) > plain.count(_THOUGHTS)  # the mapping itself, as text (Llama 3)
        return bool(plain) and VALUE not in plain and VALUE in blocks and ANSWER in blocks and not printed

    def _shown(self, messages: list[Message]) -> str:
        try:
            return self._text_of(messages, [TOOL] if self._declared else None)
        except Exception:  # a template may refuse one form or the other
            return ""


def with_parts(message: Message) -> Message:
    """The message with its text as a list of one part; other contents stay."""
    content = message["content"]
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def in_blocks(message: Message) -> Message:
    """An assistant's message with its reasoning and text as blocks; other messages stay."""
    if message["role"] != "assistant":
        return message
    parts = {_THOUGHTS: message.get("reasoning_content"), "response": message["content"]}
    return {**message, "content": {"blocks": [{"type": kind, "text": text} for kind, text in parts.items() if text]}}


@dataclass(frozen=True)
class CallForm:
    """How this template wants an assistant's calls.

    Arguments go as JSON text only where the template prints text as it is, and would print a mapping as the same JSON.
    """

    as_text: bool = False
    empty: str | None = ""  # what stands for no content beside calls: whichever shows the call and prints no "None"
    beside_text: bool = False  # whether text beside calls shows
    why_not: str | None = None  # why calls can't be shown
    fix: str | None = None

    @classmethod
    def learn(cls, text_of: TextOf, *, declared: bool) -> CallForm:
        """The first form in which the template shows a call: its name and its argument."""
        why = "the chat template shows no tool calls"
        tools = [TOOL] if declared else None
        for answered, call_id, empty in itertools.product((True, False), call_ids(), ("", None)):
            shown = {}
            for spacing, arguments in _ARGUMENTS.items():
                try:
                    text = text_of(_probe(call_id, arguments, empty, answered), tools)
                    without = text_of([QUESTION], tools)
                except Exception as error:
                    why = f"the chat template refuses tool calls: {type(error).__name__}: {error}"
                    continue
                more = {word: text.count(word) > without.count(word) for word in (NAME, VALUE, "None")}
                if more[NAME] and more[VALUE] and not more["None"]:
                    shown[spacing] = text
            as_text = _ARGUMENTS["compact"] in shown.get("compact", "")
            if as_text and "mapping" in shown:
                as_text = shown["mapping"] in (shown.get("text"), shown["compact"])
            if as_text or "mapping" in shown:
                try:
                    arguments = _ARGUMENTS["text" if as_text else "mapping"]
                    beside = text_of(_probe(call_id, arguments, ANSWER, answered), tools)
                except Exception:
                    beside = ""
                return cls(as_text, empty, VALUE in beside and ANSWER in beside)
        if not declared and cls.learn(text_of, declared=True).why_not is None:
            return cls(why_not="the chat template shows them only where tools are declared", fix="pass tools")
        return cls(why_not=why)

    def fit(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with their calls in this form.

        Raises:
            RenderError: The template can't show the calls; dropping them would render another conversation.
        """
        return [self._fit(index, m) if m.get("tool_calls") else m for index, m in enumerate(messages)]

    def _fit(self, index: int, message: Message) -> Message:
        if self.why_not is not None:
            raise RenderError(f"message {index} has tool calls, and {self.why_not}", fix=self.fix)
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


_ARGUMENTS: dict[str, Any] = {
    "text": json.dumps({KEY: VALUE}),
    "compact": json.dumps({KEY: VALUE}, separators=(",", ":")),
    "mapping": {KEY: VALUE},
}


def _probe(call_id: str, arguments: Any, content: str | None, answered: bool) -> list[Message]:
    turn: Message = {"role": "assistant", "content": content, "tool_calls": [tool_call(NAME, arguments, call_id)]}
    # The result has no name, so that the name shows in the call or nowhere.
    result: Message = {"role": "tool", "tool_call_id": call_id, "content": "five"}
    return [QUESTION, turn, result] if answered else [QUESTION, turn]
