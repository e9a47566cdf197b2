"""A tinker_cookbook renderer behind the core's protocol. Also for others who subclass upstream's ``Renderer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from typing import Any

from rllm_renderer_template import SeamBridge, SeamedRenderer

from rllm_renderer_core.errors import BridgeDeclined, UnsupportedToolsError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.messages import refuse_media
from rllm_renderer_core.normal_form.pairing import sampled_calls
from rllm_renderer_core.normal_form.tokenizer import control_ids
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from .conversion import ToolDeclarations, to_upstream
from .corrections import CORRECTIONS, Correction, rows_for
from .parsing import Parser
from .recording import Part, flat_ids, placeholder_id, recorded, split_opener, twin_of
from .rewrites import INDEX


class TinkerRenderer(SeamedRenderer):
    """Renders, parses and bridges with an upstream renderer.

    Args:
        upstream: Any ``tinker_cookbook.renderers.Renderer``; it is never changed.
        name: Its name, by which rows of the table are looked up and errors name it.
        tokenizer: The tokenizer that it was made with.
        corrections: The table of differences from official templates; others bring their own.
    """

    def __init__(self, upstream: Any, name: str, tokenizer: Any, *, corrections: Sequence[Correction] = CORRECTIONS) -> None:
        self.upstream = upstream
        self.name = name
        self.supports_media = getattr(upstream, "image_processor", None) is not None
        self._tokenizer = tokenizer
        self._control = control_ids(tokenizer)
        self._rows = rows = rows_for(name, corrections)
        self._names_results = not any(row.results_as_given for row in rows)
        self._plain = _changed(upstream, {key: change for row in rows for key, change in row.changes.items()})
        self._with_tools = _changed(self._plain, {key: change for row in rows for key, change in row.with_tools.items()})
        self._tools = ToolDeclarations(upstream, name, unescapes=any(row.letters_in_tools for row in rows))
        self._placeholder = placeholder_id(tokenizer)
        self._ids_of = partial(flat_ids, placeholder=self._placeholder, name=name)
        stops = list(upstream.get_stop_sequences())
        self._stop_ids = [stop for stop in stops if isinstance(stop, int)]
        self._stop_strings = [stop for stop in stops if isinstance(stop, str)]
        harmony = any(row.harmony for row in rows)
        self._parser = Parser(self, tokenizer, self._stop_ids, self._stop_strings, harmony=harmony)

    # Rendering

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids, attributed by the parts that upstream renders each message to.

        ``multi_modal_data`` is upstream's ``tinker.ModelInput`` where there are images; in ``token_ids`` an image is as many
        placeholders as it takes positions.

        Raises:
            UnsupportedToolsError: Tools, calls or results for a format without them upstream.
            UnsupportedContentError: Media that can't be carried.
        """
        parts = self._parts(messages, tools, add_generation_prompt)
        ids: list[int] = []
        indices: list[int | None] = []
        mask: list[bool | None] = []
        for spoken, group in groupby(parts, key=lambda part: part.message):
            together = list(group)
            own = self._ids_of(part.chunk for part in together)
            ids += own
            indices += [together[0].index] * len(own)
            given = len(own)
            if spoken is not None and spoken["role"] == "assistant":
                header = self._ids_of(part.chunk for part in together if part.is_header)
                given = common_prefix(own, self.opener) or len(header)
            mask += [False] * given + [True] * (len(own) - given)
        images = any(not hasattr(part.chunk, "tokens") for part in parts)
        return RenderedTokens(ids, indices, mask, _model_input(parts) if images else None)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """``render(...).token_ids``; errors as there."""
        if add_generation_prompt:
            prompt = (self._with_tools if tools else self._plain).build_generation_prompt(self._prepared(messages, tools))
            return self._ids_of(prompt.chunks)
        return self._ids_of(part.chunk for part in self._parts(messages, tools, False))

    def _parts(self, messages: Sequence[Message], tools: Sequence[Any] | None, opener: bool) -> list[Part]:
        parts = recorded(self._with_tools if tools else self._plain, self._prepared(messages, tools))
        if opener:
            return parts
        conversation, behind = split_opener(parts)
        following = self._ids_of(part.chunk for part in behind)
        # What upstream writes before the role tag of the next turn although it ends this one: a newline.
        ending = following[: next((index for index, token in enumerate(following) if token in self._control), 0)]
        return [*conversation, Part(_text_chunk(ending))] if ending else conversation

    def _prepared(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> list[dict[str, Any]]:
        """The messages that upstream gets: numbered, corrected, in its form, the tools declared before them."""
        numbered = [{**message, INDEX: index} for index, message in enumerate(messages)]
        if not self.supports_media:
            refuse_media(numbered, self.name)
        self._refuse_calls(numbered)
        return self._corrected(numbered, tools)

    def _corrected(self, messages: list[dict[str, Any]], tools: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        for row in self._rows:
            messages = messages if row.rewrite is None else row.rewrite(messages)
        if tools:
            messages = self._declared(messages, tools)
        for row in self._rows:
            messages = messages if row.finish is None else row.finish(messages)
        return [to_upstream(message, self.name) for message in messages]

    def _refuse_calls(self, messages: Sequence[dict[str, Any]]) -> None:
        """Upstream drops the calls of some formats without a word; a conversation with them would be another one."""
        for message in messages:
            if (message.get("tool_calls") or message["role"] == "tool") and not self.shows_calls:
                raise UnsupportedToolsError(
                    f"message {message[INDEX]} ({message['role']}): renderer {self.name!r} has no tool calls and results "
                    "upstream",
                    fix="leave them out, or choose another renderer= or backend=",
                    index=message[INDEX],
                )

    @cached_property
    def shows_calls(self) -> bool:
        """Whether upstream writes the calls of an assistant's turn."""
        call = {"type": "function", "function": {"name": "probe", "arguments": "{}"}}
        turn = {"role": "assistant", "content": "ping", INDEX: 1}
        opening = {"role": "user", "content": "ping", INDEX: 0}
        with_call, without = (
            self._plain.build_generation_prompt(self._corrected([opening, message])).to_ints()
            for message in ({**turn, "tool_calls": [call]}, turn)
        )
        return bool(with_call != without)

    def _declared(self, messages: list[dict[str, Any]], tools: Sequence[Any]) -> list[dict[str, Any]]:
        """The messages with the tools declared before them, a leading system text folded in."""
        system, index = "", -1
        if messages and messages[0]["role"] == "system" and isinstance(messages[0]["content"], str):
            system, index = messages[0]["content"], messages[0][INDEX]
            messages = messages[1:]
        return [{**message, INDEX: index} for message in self._tools.prefix(tools, system)] + messages

    @cached_property
    def opener(self) -> list[int]:
        """Ids that open an assistant's turn behind a user's."""
        _, behind = split_opener(recorded(self._plain, self._prepared([{"role": "user", "content": "ping"}], None)))
        return self._ids_of(part.chunk for part in behind)

    # Parsing and stops

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion, parsed; never raises."""
        return self._parser.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stop_ids)

    @property
    def traits(self) -> RendererTraits:
        """See ``RendererTraits``."""
        return RendererTraits(
            stop_strings=self._stop_strings,  # of base models' role_colon
            takes_views=True,
            supports_media=self.supports_media,
            fills_result_names=self._names_results,
            encodes_spans_apart=True,
            second_parser=self._parser.second,
            delimiter_words=self._parser.delimiter_words,
            why_no_tool_calls=self._parser.why_no_tool_calls,
        )

    # The bridge

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """What the seam over this renderer appends.

        Raises:
            BridgeDeclined: With the reason, where the tail can't be proven.
        """
        if not self._stop_ids:
            raise BridgeDeclined(f"renderer {self.name!r} has no stop token, so where a turn ends can't be proven")
        if self.supports_media and self._placeholder in previous_prompt_ids:
            raise BridgeDeclined("the prompt has images, whose data a bridge doesn't carry")
        new, previous = self._paired(new_messages, previous_message, previous_completion_ids, tools)
        return super().bridge_to_next_turn(
            previous_prompt_ids, previous_completion_ids, new, tools=tools, previous_message=previous
        )

    def _paired(
        self, new: Sequence[Message], previous: Message | None, completion: Sequence[int], tools: Sequence[Any] | None
    ) -> tuple[Sequence[Message], Message | None]:
        """New messages and the turn before them, for formats that need more of their pairing than the seam does."""
        return new, previous

    @cached_property
    def seam(self) -> SeamBridge:
        """The bridge over ``prompt_ids``."""
        return SeamBridge(
            self.prompt_ids,
            self._stop_ids,
            self._control,
            lambda ids: sampled_calls(self.parse_response(ids)),
            named_results=self._names_results,
        )


def _changed(upstream: Any, changes: Mapping[str, Callable[[Any], Any]]) -> Any:
    """A twin with these attributes changed, as far as this version of upstream has them."""
    return twin_of(upstream, {key: change(getattr(upstream, key)) for key, change in changes.items() if hasattr(upstream, key)})


def _model_input(parts: Sequence[Part]) -> Any:
    import tinker

    return tinker.ModelInput(chunks=[part.chunk for part in parts])


def _text_chunk(ids: list[int]) -> Any:
    import tinker

    return tinker.EncodedTextChunk(tokens=ids)
