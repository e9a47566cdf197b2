"""Completions of formats that write a turn as messages, each with a head, a mark and a body, as harmony does::

    <|start|>assistant to=...<|channel|>... <|message|> body <|end|> ... <|return|> or <|call|>

A learned parser takes only what a render shows, and a render shows few of the orders in which messages may stand: a model
samples a call's recipient before its channel or behind it, and text beside calls in a channel of its own. Messages are found by
their control ids; decoded is what lies between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_core.normal_form.arguments import json_status
from rllm_renderer_core.types import ParsedResponse, Termination, ToolCall, ToolCallStatus

REASONING, TEXT, CALL, UNKNOWN = "reasoning", "text", "call", "unknown"


@dataclass
class Block:
    """One message of a completion."""

    ids: list[int] = field(default_factory=list)  # what was sampled of it, without what opens and closes it
    head: list[int] = field(default_factory=list)  # ids before the mark, those of the prompt too
    mark: int | None = None
    body: list[int] = field(default_factory=list)  # sampled ids behind the mark
    close: int | None = None  # the id that closed it
    opened: bool = True  # there or in the prompt

    def add(self, token: int, marks: frozenset[int]) -> None:
        """An id that neither opens nor closes a message."""
        if self.mark is None and token in marks:
            self.mark = token
        else:
            (self.head if self.mark is None else self.body).append(token)


@dataclass(frozen=True)
class BlockForm:
    """What a format has: ids of control tokens, and what a message is."""

    message_open: int  # <|start|>
    body_opens: frozenset[int]  # <|message|>, between head and body
    closes: frozenset[int]  # <|end|>, <|return|>, <|call|>: stops among them
    stops: frozenset[int]  # <|return|>, <|call|>
    within: frozenset[int]  # <|channel|>, <|constrain|>, which may stand in a head
    kind: Callable[[Block, str], str]  # a block, and the text of its head, to ``REASONING``, ``TEXT``, ``CALL`` or ``UNKNOWN``
    call: Callable[[str, str], tuple[str, str]]  # texts of head and body to name and arguments; ``ValueError``: it has none
    begins_call: Callable[[str], bool]  # whether the text of a head that was cut off is a call's
    words: frozenset[str] = frozenset()  # {"assistant", "json"}: written in heads, and no render shows them; see ``ParseCheck``


class BlockParser:
    """Reads completions of one format. ``delimiter_words`` is what its models write in heads, and no render shows; see
    ``ParseCheck``.

    Args:
        form: The format.
        decode: Ids to text, with control tokens.
        control: Ids of all control tokens.
    """

    parses_tool_calls = True

    def __init__(self, form: BlockForm, decode: Callable[[list[int]], str], control: Iterable[int]) -> None:
        self._form, self._decode = form, decode
        self._control = frozenset(control)
        self.delimiter_words = form.words

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion, parsed. ``prompt_ids`` may have begun its first message."""
        ids = list(token_ids)
        stop = next((at for at, token in enumerate(ids) if token in self._form.stops), None)
        blocks = self._blocks(ids, self._begun(prompt_ids))
        parsed = ParsedResponse("", None, [], Termination.TRUNCATED if stop is None else Termination.STOP)
        reasoning, content = "", ""
        sound = stop is None or stop == len(ids) - 1
        for at, block in enumerate(blocks):
            kind = self._form.kind(block, self._decode(block.head))
            closed = block.close in self._form.closes and not (kind == REASONING and block.close in self._form.stops)
            sound = sound and closed and block.opened and kind != UNKNOWN and self._clean(block)
            if kind == REASONING:
                reasoning += self._decode(block.body)
                parsed.reasoning_complete = closed or at < len(blocks) - 1
            elif kind == CALL or (kind == UNKNOWN and block.close is None and self._form.begins_call(self._decode(block.head))):
                parsed.tool_calls.append(self._call(block, closed))
            else:
                content += self._decode(block.body if kind == TEXT else block.ids)
        parsed.reasoning_content, parsed.content = reasoning or None, content
        if not sound and parsed.termination is Termination.STOP:
            parsed.termination = Termination.MALFORMED
        return parsed

    def _clean(self, block: Block) -> bool:
        """Whether no control id stands where none belongs."""
        return self._control.isdisjoint(block.body) and (self._control - self._form.within).isdisjoint(block.head)

    def _call(self, block: Block, closed: bool) -> ToolCall:
        raw, body = self._decode(block.ids), self._decode(block.body)
        try:
            if block.mark is None:
                raise ValueError("its body isn't there")
            name, arguments = self._form.call(self._decode(block.head), body)
        except ValueError:
            return ToolCall("", "", raw=raw, status=ToolCallStatus.INVALID_JSON if closed else ToolCallStatus.UNCLOSED_BLOCK)
        status = json_status(arguments) if closed else ToolCallStatus.UNCLOSED_BLOCK
        if status is ToolCallStatus.OK and not self._clean(block):
            status = ToolCallStatus.MALFORMED_STRUCTURE
        return ToolCall(name, arguments, raw=raw, status=status)

    def _begun(self, prompt_ids: Sequence[int] | None) -> Block:
        """The message that the prompt has opened."""
        begun: list[int] = []
        for token in reversed(prompt_ids or ()):
            if token == self._form.message_open:
                break
            if token in self._form.closes:
                return Block(opened=False)
            begun.append(token)
        block = Block()
        for token in reversed(begun):
            block.add(token, self._form.body_opens)
        block.body.clear()  # only what was sampled
        return block

    def _blocks(self, ids: Sequence[int], block: Block) -> list[Block]:
        """The messages of a completion, the first one as far as it isn't in the prompt."""
        form, blocks = self._form, list[Block]()
        for token in ids:
            if token in form.closes or token in form.stops:
                if block.ids or block.mark is not None or token in form.closes:
                    block.close = token
                    blocks.append(block)
                block = Block(opened=False)
            elif token == form.message_open:
                blocks += [block] if block.ids else []
                block = Block()
            else:
                block.ids.append(token)
                block.add(token, form.body_opens)
        return [*blocks, block] if block.ids or block.mark is not None else blocks
