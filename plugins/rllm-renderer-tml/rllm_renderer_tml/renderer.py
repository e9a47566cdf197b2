"""An upstream renderer behind the core's protocol: messages to ids, ids back, and the core's seam as the bridge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_template import BlockParser, LearnedParser, SeamBridge, SeamedRenderer, block_parser

from rllm_renderer_core.errors import UnsupportedToolsError
from rllm_renderer_core.normal_form.pairing import sampled_calls
from rllm_renderer_core.normal_form.tokenizer import control_ids, decoder_of, reasoning_ids
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .conversion import to_upstream
from .corrections.context import Context
from .corrections.plain import only_texts
from .corrections.splices import Splices, refuse_placeholders
from .corrections.table import rows_for
from .media import Media
from .turns import Turns


class TmlRenderer(SeamedRenderer):
    """Renders, parses and bridges with an upstream renderer.

    Args:
        upstream: A ``tml_renderers`` renderer.
        name: Its name, by which rows of the table are looked up and errors name it.
        tokenizer: The tokenizer that was passed in, proven to be upstream's vocabulary.
        arguments: What upstream was made with.
        effort: Inkling's thinking effort, from 0 up to, without, 1; ``None`` for the other formats.
    """

    def __init__(self, upstream: Any, name: str, tokenizer: Any, arguments: dict[str, Any], effort: float | None) -> None:
        self.upstream = upstream
        self.name = name
        self.tokenizer = tokenizer
        self._vocabulary = upstream.tokenizer
        self._control = frozenset(int(self._vocabulary.encode_special(each)) for each in self._vocabulary.special_tokens())
        self._rows = rows_for(name)
        self._media = Media(name, tokenizer)
        self._arguments, self._effort = arguments, effort
        self._added_opener = [self._vocabulary.encode_special(row.opener) for row in self._rows if row.opener is not None]
        self._declares = next((row.declares for row in self._rows if row.declares is not None), None)
        self._stop_ids = [stop for stop in upstream.stop() or [] if isinstance(stop, int)]
        self._refuses_tools = any(row.refuses_tools for row in self._rows)
        self._names_results = not any(row.results_as_given for row in self._rows)
        self.turns = Turns(
            self._vocabulary,
            self._control,
            self._stop_ids,
            reasoning_ids(tokenizer),
            lambda messages: self._ids(to_upstream(messages, None)),
            self.prompt_ids,
        )

    # Rendering

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids, attributed by the control tokens that open turns.

        ``multi_modal_data`` is a ``RenderedMedia`` where there are images or audio; in ``token_ids`` each is as many
        placeholders as it takes positions.

        Raises:
            UnsupportedContentError: Media that can't be carried.
            UnsupportedToolsError: Tools for a format that has no declarations upstream.
            MessageError: What upstream can't render, and no row of the table corrects.
        """
        media: list[Any] = []
        ids = self._rendered(messages, tools, add_generation_prompt, media)
        indices, mask = self.turns.attributed(ids, messages)
        return RenderedTokens(ids, indices, mask, self._media.data(ids, media))

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """``render(...).token_ids``; errors as there."""
        return self._rendered(messages, tools, add_generation_prompt, [])

    def _rendered(
        self, messages: Sequence[Message], tools: Sequence[Any] | None, add_generation_prompt: bool, media: list[Any]
    ) -> list[int]:
        """The ids; upstream's spans of media are put into ``media``."""
        if tools and self._refuses_tools:
            raise UnsupportedToolsError(
                f"renderer {self.name!r} has no tool declarations upstream",
                fix="leave tools out, or choose another backend=",
            )
        if add_generation_prompt and not tools and only_texts(messages):
            return self._ids(to_upstream(messages, None))
        refuse_placeholders(each for message in messages for each in _texts(message))
        splices = Splices(self._vocabulary, self._control)
        context = Context(splices, self._vocabulary, self._arguments)
        prepared: Any = self._media.parts(messages)
        for row in self._rows:
            if row.rewrite is not None:
                prepared = row.rewrite(prepared, context)
        declared: Any = tools
        for row in self._rows:
            if row.declare is not None and tools:
                declared = row.declare(tools, context)
        whole = not add_generation_prompt and any(row.closed_as_trained for row in self._rows) and _last_spoken(messages)
        ids = self._ids(to_upstream(prepared, declared, self._declares), trained=whole, media=media)
        if splices:
            ids = splices.apply(ids)
        for row in self._rows:
            if row.finish is not None:
                ids = row.finish(ids, context)
        if not add_generation_prompt and not whole:
            ids = self.turns.without_opener(ids)
        return ids

    def _ids(self, messages: Any, *, trained: bool = False, media: list[Any] | None = None) -> list[int]:
        if trained:
            spans = self.upstream.render_for_sft(messages)[-1].input_token_spans
        elif self._effort is not None:
            spans, _ = self.upstream.render_for_completion_with_effort(messages, self._effort)
        else:
            spans, _ = self.upstream.render_for_completion(messages)
        if len(spans) == 1 and not self._added_opener:
            return self._span(spans[0], media)
        return [*(token for span in spans for token in self._span(span, media)), *self._added_opener]

    def _span(self, span: Any, media: list[Any] | None) -> list[int]:
        inner = span.span
        ids = getattr(inner, "int_tokens", None)
        if ids is None:
            ids = self._media.ids_of(inner)
            if media is not None:
                media.append(span)
        return ids if type(ids) is list else list(ids)

    # Parsing and stops

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion, parsed; never raises."""
        parser = self._block_parser or self.parser
        return parser.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stop_ids)

    @cached_property
    def _block_parser(self) -> BlockParser | None:
        """For formats whose turn is a list of messages."""
        return block_parser(self.tokenizer) if self.name in ("GptOss", "v0") else None

    @property
    def traits(self) -> RendererTraits:
        """See ``RendererTraits``."""
        return RendererTraits(
            takes_views=True,
            supports_media=bool(self._media),
            fills_result_names=self._names_results,
            encodes_spans_apart=True,
            delimiter_words=self._block_parser.delimiter_words if self._block_parser is not None else frozenset(),
        )

    @cached_property
    def parser(self) -> LearnedParser:
        """The core's parser, learned from this renderer on first use.

        Upstream's own parsers raise on a completion that was cut off or is broken, drop white space, and give a call's
        arguments as values without their text, so that neither every attempt nor every id could be accounted for.
        """
        control = self._control | control_ids(self.tokenizer)
        return LearnedParser(self._render_for_parser, decoder_of(self.tokenizer), self._stop_ids, control)

    def _render_for_parser(self, messages: Any, *, tools: Any = None, add_generation_prompt: bool = False) -> list[int]:
        return self._rendered(messages, None if self._refuses_tools else tools, add_generation_prompt, [])

    # The bridge

    @cached_property
    def seam(self) -> SeamBridge:
        """The seam over ``prompt_ids``; it declines new messages with media."""
        return SeamBridge(
            self.prompt_ids,
            self._stop_ids,
            self._control,
            lambda ids: sampled_calls(self.parse_response(ids)),
            named_results=self._names_results,
        )

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> list[int]:
        """The ids of a prompt, as the seam renders its probe conversations."""
        # Where tools can't be declared, they are no part of what follows a turn either: the prompt was rendered elsewhere.
        return self._rendered(messages, None if self._refuses_tools else tools, True, [])


def _texts(message: Message) -> list[str]:
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    if message["role"] == "assistant":
        texts.append(message.get("reasoning_content") or "")
        texts += [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    return texts


def _last_spoken(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1]["role"] == "assistant"
