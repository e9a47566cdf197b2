"""An upstream renderer behind the core's protocol: messages to ids, ids back, and the core's seam as the bridge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_template.blocks.formats import block_parser
from rllm_renderer_template.blocks.parser import BlockParser
from rllm_renderer_template.parser.learned import LearnedParser
from rllm_renderer_template.seam.bridge import SeamBridge
from rllm_renderer_template.seam.renderer import SeamedRenderer

from rllm_renderer_core.errors import RendererError, RenderError, UnsupportedToolsError
from rllm_renderer_core.normal_form.pairing import sampled_calls
from rllm_renderer_core.normal_form.tokenizer import control_ids, decoder_of, reasoning_ids
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .attribution import attributed
from .conversion import to_upstream
from .corrections import Context, rows_for
from .media import Media
from .plain import only_texts
from .splices import Splices, refuse_placeholders

TAGS = ("user", "observation", "system", "User", "System", "im_start", "im_user", "im_system", "start", "message_user",
        "message_system", "message_tool", "tool_outputs_begin", "tool_output_begin")  # fmt: skip
"""Upstream's names of the control tokens that open a turn of a role other than the assistant's, in all formats."""


class TmlRenderer(SeamedRenderer):
    """Renders, parses and bridges with an upstream renderer.

    Args:
        upstream: A ``tml_renderers`` renderer.
        name: Its name, by which rows of the table are looked up and errors name it.
        tokenizer: The tokenizer that was passed in, proven to be upstream's vocabulary.
        arguments: What upstream was made with.
        effort: Inkling's thinking effort, from 0 up to, without, 1; ``None`` for the other formats.
    """

    def __init__(
        self,
        upstream: Any,
        name: str,
        tokenizer: Any,
        *,
        arguments: dict[str, Any] | None = None,
        effort: float | None = None,
    ) -> None:
        self.upstream = upstream
        self.name = name
        self.tokenizer = tokenizer
        self._vocabulary = upstream.tokenizer
        self._control = frozenset(int(self._vocabulary.encode_special(each)) for each in self._vocabulary.special_tokens())
        self._rows = rows_for(name)
        self._media = Media(name, tokenizer)
        self._arguments = dict(arguments or {})
        self._effort = effort
        openers = [int(self._vocabulary.encode_special(row.opener)) for row in self._rows if row.opener is not None]
        self._added_opener = openers
        self._declares = next((row.declares for row in self._rows if row.declares is not None), None)
        stops = upstream.stop() or []
        self._stop_ids = [stop for stop in stops if isinstance(stop, int)]
        self._refuses_tools = any(row.refuses_tools for row in self._rows)
        self.fills_result_names = not any(row.results_as_given for row in self._rows)

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
        indices, mask = attributed(ids, messages, self._opener, self._control, self._stop_ids, self._tags, self._bare)
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
        context = Context(splices, self._vocabulary, bool(tools), self._arguments, add_generation_prompt)
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
            ids = self._without_opener(ids)
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
        return list(ids) if type(ids) is not list else ids

    def _without_opener(self, ids: list[int]) -> list[int]:
        """The ids up to the role tag of the turn that isn't there yet."""
        opener = self._opener
        size = len(opener)
        return ids[: len(ids) - size] if opener and ids[len(ids) - size :] == opener else ids

    @cached_property
    def _opener(self) -> list[int]:
        """Ids that open an assistant's turn behind a user's, from its role tag on."""
        ids = self._ids(to_upstream([{"role": "user", "content": "ping"}], None))
        closing = self._ids(to_upstream([{"role": "user", "content": "pong"}], None))
        size = next(at for at in range(1, len(ids)) if ids[-at] != closing[-at]) - 1
        tail = ids[len(ids) - size :]
        # What closes the user's turn comes first; the last control token that isn't about reasoning is the role's.
        markers = reasoning_ids(self.tokenizer)
        tags = [at for at, token in enumerate(tail) if token in self._control and token not in markers]
        if not tags:
            raise RenderError(f"renderer {self.name!r} opens an assistant's turn with no control token")
        first = next((at for at in tags if self._is_opener(tail[at:])), tags[-1])
        return tail[first:]

    def _is_opener(self, tail: list[int]) -> bool:
        return tail[0] not in self._stop_ids and tail[0] not in self._closes_of_users

    @property
    def written(self) -> frozenset[int]:
        """Control tokens that the format can't do without: its stops, and what a short conversation shows."""
        short = [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}]
        return frozenset(self._stop_ids) | self._control.intersection([*self._opener, *self._ids(to_upstream(short, None))])

    def _named(self, *names: str) -> frozenset[int]:
        known = self._vocabulary.special_tokens()
        return frozenset(int(self._vocabulary.encode_special(name)) for name in names if name in known)

    @cached_property
    def _closes_of_users(self) -> frozenset[int]:
        """Control tokens between a user's text and the next turn of a user."""
        return self._named("im_end", "end", "end_message")

    @cached_property
    def _tags(self) -> frozenset[int]:
        """Control tokens that open a turn which isn't an assistant's."""
        return self._named(*TAGS)

    @cached_property
    def _bare(self) -> int | None:
        """The control token that a turn behind results begins behind, where the format opens none there."""
        call = {"id": "functions.ping:0", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
        result = {"role": "tool", "content": "pong", "tool_call_id": call["id"], "name": "ping"}
        called: list[Message] = [
            {"role": "user", "content": "ping"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            result,
        ]
        try:
            last = self._rendered(called, None, True, [])[-1]
        except RendererError:
            return None
        return last if last in self._control and last not in self._opener else None

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
            fills_result_names=self.fills_result_names,
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
        wanted = None if self._refuses_tools else tools
        return self.render_ids(messages, tools=wanted, add_generation_prompt=add_generation_prompt)

    # The bridge

    @cached_property
    def seam(self) -> SeamBridge:
        """The seam over ``prompt_ids``; it declines new messages with media."""
        return SeamBridge(
            self.prompt_ids,
            self._stop_ids,
            self._control,
            lambda ids: sampled_calls(self.parse_response(ids)),
            named_results=self.fills_result_names,
        )

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> list[int]:
        """The ids of a prompt, as the seam renders its probe conversations."""
        # Where tools can't be declared, they are no part of what follows a turn either: the prompt was rendered elsewhere.
        return self.render_ids(messages, tools=None if self._refuses_tools else tools, add_generation_prompt=True)


def _texts(message: Message) -> list[str]:
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    if message["role"] == "assistant":
        texts.append(message.get("reasoning_content") or "")
        texts += [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    return texts


def _last_spoken(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1]["role"] == "assistant"
