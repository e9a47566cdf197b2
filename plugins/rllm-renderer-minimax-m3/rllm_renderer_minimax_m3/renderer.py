"""The renderer: text in chunks to ids with their attribution, ids back, and the bridge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined, MessageError
from rllm_renderer_core.normal_form.ids import BridgedTokens
from rllm_renderer_core.normal_form.messages import normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .bridging import check_messages, check_turn
from .markers import CLOSE, Vocabulary
from .options import Options
from .parsing import Thinking, open_turn, parse, thinking_state
from .rendering import OPENER, Chunk, conversation_chunks, next_opener, render_chunks

_HEADS = 32
"""How many system blocks with their tools are remembered as ids."""


class MiniMaxM3Renderer:
    """MiniMax-M3's chat format on token level; see ``rllm_renderer_core.types.Renderer`` for the methods.

    Messages and tools may come in any form that the core normalises. Not thread-safe by itself, as tokenizers aren't: what
    ``resolve`` returns holds the lock.

    Args:
        tokenizer: The model's tokenizer, or any object with its ``encode`` and ``decode``.
        options: Thinking mode, model identity, and what reserved text in messages becomes.

    Raises:
        TokenizerError: Where the tokenizer lacks one of the format's tokens.
    """

    def __init__(self, tokenizer: Any, options: Options | None = None) -> None:
        self.options = options or Options()
        self._vocabulary = Vocabulary(tokenizer, plain=self.options.marker_text == "plain")
        self._opener = self._vocabulary.encode(OPENER)
        self._newline = self._opener[-1]
        self._next_opener = self._vocabulary.encode(next_opener(self.options))
        self._heads: dict[tuple[str, ...], list[int]] = {}

    @property
    def traits(self) -> RendererTraits:
        """See ``RendererTraits``."""
        pair = self._vocabulary.think_open, self._vocabulary.think_close
        return RendererTraits(stop_strings=[CLOSE], takes_views=True, reasoning_ids=lambda: pair)

    def get_stop_token_ids(self) -> list[int]:
        return [self._vocabulary.close]

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Render a conversation; a turn's header and close belong to its message, and so do tools in a developer turn.

        Raises:
            MessageError: For messages that the format has no place for, with the index.
            ToolError: For a declaration that can't be used.
        """
        out = RenderedTokens([], [], [])
        for chunk in render_chunks(normalize_messages(messages), normalize_tools(tools), self.options):
            self._append(out, chunk)
        if add_generation_prompt:
            _extend(out, self._next_opener, -1)
        return out

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """``render(...).token_ids``, without the cost of attribution."""
        ids: list[int] = []
        # Turn by turn: a tokenizer takes longer for one long text than for its turns.
        for chunk in render_chunks(normalize_messages(messages), normalize_tools(tools), self.options):
            ids += self._ids(chunk)
        return ids + self._next_opener if add_generation_prompt else ids

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Parse sampled ids; reasoning and content come back as sampled, with whitespace at their edges.

        Without ``prompt_ids`` the prompt is taken to end in this renderer's own opener.
        """
        prompt = self._next_opener if prompt_ids is None else list(prompt_ids)
        turn = open_turn(prompt, self._vocabulary)
        start = Thinking.UNDECIDED if turn is None else thinking_state(turn, self._vocabulary)
        return parse(token_ids, self._vocabulary, tools, start)

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens:
        """Prompt, completion, the new turns and the next opener. ``tools`` don't matter: the prompt's head declares them.

        Raises:
            BridgeDeclined: Where the new turns can't be appended, with the reason in one line.
        """
        prompt, completion = previous_prompt_ids, list(previous_completion_ids)  # the prompt may be long: it isn't copied
        try:
            messages = normalize_messages(new_messages)
            check_messages(messages)
            missing, newline = check_turn(
                prompt, completion, messages, previous_message, self._vocabulary, self._opener, self._newline
            )
            chunks = list(conversation_chunks(messages, 0, self.options, called=True))
        except MessageError as error:
            raise BridgeDeclined(str(error).partition("\n")[0]) from error
        out = RenderedTokens([], [], [])
        if missing:
            _extend(out, [self._vocabulary.close], -1)
        if not newline:
            _extend(out, [self._newline], -1)
        for chunk in chunks:
            self._append(out, chunk)
        _extend(out, self._next_opener, -1)
        return BridgedTokens(prompt, completion, out.token_ids, out.message_indices, out.sampled_mask)

    def _append(self, out: RenderedTokens, chunk: Chunk) -> None:
        ids = self._ids(chunk)
        if chunk.opener is None:
            _extend(out, ids, chunk.index)
            return
        # Sampled is what follows the opener, up to and with the stop; the newline behind it is the template's.
        before = len(self._opener) if chunk.opener == OPENER else len(self._next_opener)
        _extend(out, ids, chunk.index, [False] * before + [True] * (len(ids) - before - 1) + [False])

    def _ids(self, chunk: Chunk) -> list[int]:
        if not chunk.head:
            return self._encode(chunk)
        key = tuple(chunk.parts)
        ids = self._heads.get(key)
        if ids is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            ids = self._heads[key] = self._encode(chunk)
        return ids

    def _encode(self, chunk: Chunk) -> list[int]:
        ids: list[int] = []
        for piece in self._vocabulary.pieces(chunk.parts, chunk.texts):
            ids += self._vocabulary.encode(piece)
        return ids


def _extend(out: RenderedTokens, ids: Iterable[int], index: int, sampled: list[bool] | None = None) -> None:
    assert out.message_indices is not None and out.sampled_mask is not None
    before = len(out.token_ids)
    out.token_ids.extend(ids)
    count = len(out.token_ids) - before
    out.message_indices.extend([index] * count)
    out.sampled_mask.extend(sampled or [False] * count)
