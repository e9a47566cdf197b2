"""A tinker_cookbook renderer behind the core's protocol. Also for others who subclass upstream's ``Renderer``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from rllm_renderer_template.blocks.formats import block_parser
from rllm_renderer_template.blocks.parser import BlockParser
from rllm_renderer_template.chat_template.template_parser import learned_parser
from rllm_renderer_template.parser.learned import LearnedParser
from rllm_renderer_template.seam.bridge import SeamBridge

from rllm_renderer_core.errors import BridgeDeclined, UnsupportedToolsError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.messages import has_media, refuse_media
from rllm_renderer_core.normal_form.pairing import sampled_calls
from rllm_renderer_core.normal_form.tokenizer import chat_template, control_ids, reasoning_ids
from rllm_renderer_core.plugin import RendererTraits
from rllm_renderer_core.types import Message, ParsedResponse, RenderedTokens

from . import base_models
from .conversion import ToolDeclarations, to_upstream
from .corrections import CORRECTIONS, Correction, finished, rewritten, rows_for
from .images import flat_ids, placeholder_id
from .recording import Part, recorded, split_opener, twin_of
from .rewrites import INDEX, unescaped


class TinkerRenderer:
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
        self._rows = rows_for(name, corrections)
        self.fills_result_names = not any(row.results_as_given for row in self._rows)
        different = {key: value for row in self._rows for key, value in row.attributes.items()}
        different |= {key: change(getattr(upstream, key)) for row in self._rows for key, change in row.changes.items()}
        self._plain = twin_of(upstream, different)
        changed = {key: change for row in self._rows for key, change in row.with_tools.items()}
        values = {key: change(getattr(upstream, key)) for key, change in changed.items() if hasattr(upstream, key)}
        self._with_tools = twin_of(self._plain, values)
        self._tools = ToolDeclarations(upstream, name)
        stops = list(upstream.get_stop_sequences())
        self._stop_ids = [stop for stop in stops if isinstance(stop, int)]
        self._stop_strings = [stop for stop in stops if isinstance(stop, str)]
        self._placeholder = placeholder_id(tokenizer)

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
        images = False
        for spoken, group in groupby(parts, key=lambda part: part.message):
            together = list(group)
            pieces = [flat_ids([part.chunk], self._placeholder, self.name) for part in together]
            images = images or any(image for _, image in pieces)
            own = [token for piece, _ in pieces for token in piece]
            ids += own
            indices += [together[0].index] * len(own)
            given = len(own)
            if spoken is not None and spoken["role"] == "assistant":
                header = sum(len(piece) for part, (piece, _) in zip(together, pieces, strict=True) if part.is_header)
                given = common_prefix(own, self._opener) or header
            mask += [False] * given + [True] * (len(own) - given)
        return RenderedTokens(ids, indices, mask, _model_input(parts) if images else None)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """``render(...).token_ids``; errors as there."""
        if add_generation_prompt:
            prompt = (self._with_tools if tools else self._plain).build_generation_prompt(self._prepared(messages, tools))
            return flat_ids(prompt.chunks, self._placeholder, self.name)[0]
        parts = self._parts(messages, tools, False)
        return flat_ids((part.chunk for part in parts), self._placeholder, self.name)[0]

    def _parts(self, messages: Sequence[Message], tools: Sequence[Any] | None, opener: bool) -> list[Part]:
        parts = recorded(self._with_tools if tools else self._plain, self._prepared(messages, tools))
        if opener:
            return parts
        conversation, behind = split_opener(parts)
        ending = self._before_role(flat_ids((part.chunk for part in behind), self._placeholder, self.name)[0])
        return [*conversation, Part(_text_chunk(ending))] if ending else conversation

    def _before_role(self, opener: list[int]) -> list[int]:
        """What upstream writes before the role tag of the next turn although it ends this one: a newline."""
        at = next((index for index, token in enumerate(opener) if token in self._control), 0)
        return opener[:at]

    def _prepared(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> list[dict[str, Any]]:
        """The messages that upstream gets: numbered, corrected, in its form, the tools declared before them."""
        numbered = [{**message, INDEX: index} for index, message in enumerate(messages)]
        if not self.supports_media:
            refuse_media(numbered, self.name)
        self._refuse_calls(numbered)
        ready = rewritten(numbered, self._rows)
        if tools:
            ready = self._declared(ready, tools)
        return to_upstream(finished(ready, self._rows), self.name)

    def _refuse_calls(self, messages: Sequence[dict[str, Any]]) -> None:
        """Upstream drops the calls of some formats without a word; a conversation with them would be another one."""
        for message in messages:
            if (message.get("tool_calls") or message["role"] == "tool") and not self._shows_calls:
                where = f"message {message[INDEX]} ({message['role']})"
                raise UnsupportedToolsError(
                    f"{where}: renderer {self.name!r} has no tool calls and results upstream",
                    fix="leave them out, or choose another renderer= or backend=",
                    index=message[INDEX],
                )

    @cached_property
    def _shows_calls(self) -> bool:
        call = {"type": "function", "function": {"name": "probe", "arguments": "{}"}}
        turn = {"role": "assistant", "content": "ping", INDEX: 1}
        opening = {"role": "user", "content": "ping", INDEX: 0}
        with_call, without = (
            self._plain.build_generation_prompt(
                to_upstream(finished(rewritten([opening, each], self._rows), self._rows), self.name)
            ).to_ints()
            for each in ({**turn, "tool_calls": [call]}, turn)
        )
        return bool(with_call != without)

    def _declared(self, messages: list[dict[str, Any]], tools: Sequence[Any]) -> list[dict[str, Any]]:
        """The messages with the tools declared before them, a leading system text folded in."""
        system, index = "", -1
        if messages and messages[0]["role"] == "system" and isinstance(messages[0]["content"], str):
            system, index = messages[0]["content"], messages[0][INDEX]
            messages = messages[1:]
        declared = self._tools.prefix(tools, system)
        if any(row.letters_in_tools for row in self._rows):
            declared = [{**each, "content": unescaped(each["content"], system, tools)} for each in declared]
        return [{**message, INDEX: index} for message in declared] + messages

    # Parsing and stops

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """A completion, parsed by what is learned from the renders; never raises.

        Upstream's own parsers give up on a completion without its stop, raise on some, and give calls without their text.
        """
        if self._stop_strings:
            return base_models.parse(self.upstream, self._tokenizer, token_ids, self._stop_strings)
        parser = self._messages or self.learned
        return parser.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)

    @cached_property
    def _messages(self) -> BlockParser | None:
        """For gpt-oss, whose turns are lists of messages in more orders than a render shows."""
        return block_parser(self._tokenizer) if any(row.harmony for row in self._rows) else None

    @property
    def traits(self) -> RendererTraits:
        """See ``RendererTraits``."""
        return RendererTraits(
            stop_strings=self._stop_strings,  # of base models' role_colon
            takes_views=True,
            supports_media=self.supports_media,
            fills_result_names=self.fills_result_names,
            encodes_spans_apart=True,
            second_parser=lambda: self.second_parser,
            delimiter_words=self._messages.delimiter_words if self._messages is not None else frozenset(),
            why_no_tool_calls=lambda: self.why_no_tool_calls,
        )

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stop_ids)

    @property
    def why_no_tool_calls(self) -> str | None:
        """Why calls can't be read out of completions, ``None`` where they can."""
        if self._stop_strings:
            return f"renderer {self.name!r} has no tool calls upstream"
        return None if self._messages is not None else self.learned.why_no_tool_calls

    @property
    def second_parser(self) -> LearnedParser | None:
        """For completions that the parser of gpt-oss gives up on."""
        return self.learned if self._messages is not None else None

    @cached_property
    def learned(self) -> LearnedParser:
        """What is learned from the renders; from the template, where that shows calls (Llama 3) or reasoning (Ministral) and
        upstream doesn't."""
        own = LearnedParser.of(self.render_ids, self._tokenizer, self._stop_ids)
        if self._shows_calls and (not reasoning_ids(self._tokenizer) or own.reasoning != "not shown"):
            return own
        found = self._of_template()
        return own if found is None or (self._shows_calls and found.reasoning == "not shown") else found

    def _of_template(self) -> LearnedParser | None:
        """The template's parser, where upstream opens turns as that template does."""
        if not self._stop_ids or chat_template(self._tokenizer) is None:
            return None
        question = [{"role": "user", "content": "ping"}]
        prompt = self._tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=True, return_dict=False)
        tail = self.render_ids(question, add_generation_prompt=True)[-len(self._opener) - 1 :]  # with what closes the question
        if list(prompt)[-len(tail) :] != tail:
            return None
        parser = learned_parser(self._tokenizer, {}, self._stop_ids)
        return parser if parser.parses_tool_calls else None

    @cached_property
    def _opener(self) -> list[int]:
        """Ids that open an assistant's turn behind a user's."""
        _, behind = split_opener(recorded(self._plain, self._prepared([{"role": "user", "content": "ping"}], None)))
        return flat_ids((part.chunk for part in behind), self._placeholder, self.name)[0]

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
        """The core's seam over this renderer.

        Raises:
            BridgeDeclined: With the reason, where the tail can't be proven.
        """
        if not self._stop_ids:
            raise BridgeDeclined(f"renderer {self.name!r} has no stop token, so where a turn ends can't be proven")
        if any(has_media(message) for message in new_messages):
            raise BridgeDeclined("images can't be bridged")
        if self.supports_media and self._placeholder in previous_prompt_ids:
            raise BridgeDeclined("the prompt has images, whose data a bridge doesn't carry")
        return self._seam.bridge_to_next_turn(
            previous_prompt_ids, previous_completion_ids, new_messages, tools=tools, previous_message=previous_message
        )

    @cached_property
    def _seam(self) -> SeamBridge:
        return SeamBridge(
            self._render_for_bridge,
            self._stop_ids,
            self._control,
            lambda ids: sampled_calls(self.parse_response(ids)),
            named_results=self.fills_result_names,
        )

    def _render_for_bridge(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        wanted = tools if all(row.tools_in_bridge for row in self._rows) else None
        return self.render_ids(messages, tools=wanted, add_generation_prompt=True)


def _model_input(parts: Sequence[Part]) -> Any:
    import tinker

    return tinker.ModelInput(chunks=[part.chunk for part in parts])


def _text_chunk(ids: list[int]) -> Any:
    import tinker

    return tinker.EncodedTextChunk(tokens=ids)
