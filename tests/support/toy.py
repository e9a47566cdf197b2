"""A toy model: a format with control tokens, one id a character, and a hand-written renderer that keeps the contract.

It needs no tokenizer and nothing of the core but the value types, as a third party would write it. Text::

    BOS SYSTEM Be brief. END \\n USER How many? END \\n ASSISTANT THINK why UNTHINK 4 CALL look ARGS {"q": "tea"} UNCALL END \\n
    TOOL look RESULT five END \\n ASSISTANT
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rllm_renderer_core import ParsedResponse, RenderedTokens, RendererTraits, Termination, ToolCall, ToolCallStatus

BOS, SYSTEM, USER, ASSISTANT, TOOL, END, THINK, UNTHINK, CALL, ARGS, UNCALL, RESULT = range(1, 13)
ROLES = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}
CONTROL = frozenset(range(1, 13))
FIRST = 100
NEWLINE = FIRST + ord("\n")


def encode(text: str) -> list[int]:
    return [FIRST + ord(character) for character in text]


def decode(ids: Iterable[int]) -> str:
    """Text of the ids; control tokens and ids outside the vocabulary have none."""
    return "".join(chr(token - FIRST) for token in ids if FIRST <= token < FIRST + 0xD800 or 0xE000 <= token - FIRST < 0x110000)


class ToyTokenizer:
    """As much of a tokenizer as the core looks at; its text can't become control tokens."""

    name_or_path = "toy/toy-1"
    chat_template = None
    eos_token_id = END

    def get_added_vocab(self) -> dict[str, int]:
        names = ["bos", "system", "user", "assistant", "tool", "end", "think", "unthink", "call", "args", "uncall", "result"]
        return {f"<{name}>": index for index, name in enumerate(names, 1)}


class ToyRenderer:
    traits = RendererTraits(reasoning_ids=lambda: (THINK, UNTHINK))

    def __init__(self, tokenizer: Any = None) -> None:
        self.tokenizer = tokenizer if tokenizer is not None else ToyTokenizer()

    def render(
        self, messages: Sequence[Any], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        ids, indices, mask = [BOS], [-1], [False]
        if tools:
            block = [SYSTEM, *encode(json.dumps(list(tools))), END, NEWLINE]
            ids, indices, mask = ids + block, indices + [-1] * len(block), mask + [False] * len(block)
        for index, message in enumerate(messages):
            body = self.body(message)
            sampled = message["role"] == "assistant"
            ids += [ROLES[message["role"]], *body, END, NEWLINE]
            indices += [index] * (len(body) + 3)
            mask += [False, *[sampled] * (len(body) + 1), False]
        if add_generation_prompt:
            ids, indices, mask = [*ids, ASSISTANT], [*indices, -1], [*mask, False]
        return RenderedTokens(ids, indices, mask)

    def render_ids(
        self, messages: Sequence[Any], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids

    def body(self, message: Any) -> list[int]:
        if message["role"] == "tool":
            return [*encode(message.get("name") or "tool"), RESULT, *encode(message["content"])]
        ids = []
        if message.get("reasoning_content"):
            ids += [THINK, *encode(message["reasoning_content"]), UNTHINK]
        ids += encode(message["content"])
        for call in message.get("tool_calls") or ():
            function = call["function"]
            ids += [CALL, *encode(function["name"]), ARGS, *encode(function["arguments"]), UNCALL]
        return ids

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        ids = list(token_ids)
        at = ids.index(END) if END in ids else None
        body = ids if at is None else ids[:at]
        reasoning, complete = None, True
        if body[:1] == [THINK]:
            complete = UNTHINK in body
            end = body.index(UNTHINK) if complete else len(body)
            reasoning, body = decode(body[1:end]), body[end + 1 :]
        head, *attempts = _split(body, CALL)
        if at is None:
            termination = Termination.TRUNCATED
        else:
            termination = Termination.STOP if complete and at == len(ids) - 1 else Termination.MALFORMED
        return ParsedResponse(decode(head), reasoning, [_call(attempt) for attempt in attempts], termination, complete)

    def get_stop_token_ids(self) -> list[int]:
        return [END]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Any = None,
    ) -> RenderedTokens | None:
        start = [*previous_prompt_ids, *previous_completion_ids]
        completion = list(previous_completion_ids)
        if END in completion:
            extra = completion[completion.index(END) + 1 :]
            if extra not in ([], [NEWLINE]):
                return None
            close = [NEWLINE][len(extra) :]
        else:
            close = [END, NEWLINE]
        rendered = self.render(new_messages, add_generation_prompt=True)
        delta = [*close, *rendered.token_ids[1:]]
        indices = [*[-1] * len(close), *(rendered.message_indices or [])[1:]]
        return RenderedTokens(start + delta, [None] * len(start) + indices, [None] * len(start) + [False] * len(delta))


def _split(ids: list[int], at: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for token in ids:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _call(attempt: list[int]) -> ToolCall:
    raw = decode(attempt)
    if UNCALL not in attempt:
        return ToolCall("", raw, raw=raw, status=ToolCallStatus.UNCLOSED_BLOCK)
    name, *arguments = _split(attempt[: attempt.index(UNCALL)], ARGS)
    text = decode(arguments[0]) if arguments else ""
    try:
        status = ToolCallStatus.OK if isinstance(json.loads(text), dict) else ToolCallStatus.INVALID_JSON
    except ValueError:
        status = ToolCallStatus.INVALID_JSON
    return ToolCall(decode(name), text, raw=raw, status=status)
