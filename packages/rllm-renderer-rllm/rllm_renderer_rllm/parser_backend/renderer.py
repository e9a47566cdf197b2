"""A ``ChatTemplateParser`` behind the core's protocol, called as rLLM's engines call it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rllm_renderer_template.seam.bridge import SeamBridge
from rllm_renderer_template.seam.renderer import SeamedRenderer

from rllm_renderer_core.errors import OptionError
from rllm_renderer_core.normal_form.pairing import sampled_calls
from rllm_renderer_core.normal_form.tokenizer import control_ids, eos_ids
from rllm_renderer_core.plugin import Query
from rllm_renderer_core.types import Message, ParsedResponse, Termination, ToolCall, ToolCallStatus

KEYWORDS = {"accumulate_reasoning": False, "reasoning_effort": "medium"}
"""Keywords of ``parse`` that the engines pass, with their defaults there."""


def create_renderer(query: Query) -> ParserRenderer:
    """The renderer for a query whose backend is this one.

    Raises:
        OptionError: For a keyword that isn't one of ``KEYWORDS``.
    """
    for key in query.chat_template_kwargs:
        if key not in KEYWORDS:
            raise OptionError(
                f"chat_template_kwargs: ChatTemplateParser has no {key!r}, backend 'parser' can't honour it",
                fix=f"its keywords are {', '.join(KEYWORDS)}",
                option="chat_template_kwargs",
                backend="parser",
            )
    from rllm.parser import ChatTemplateParser

    parser = ChatTemplateParser.get_parser(query.tokenizer, disable_thinking=query.thinking is False)
    if query.thinking and getattr(parser, "disable_thinking", None) is None:
        raise OptionError(
            f"thinking: {type(parser).__name__} has no such switch, backend 'parser' can't honour it",
            fix="leave thinking out",
            option="thinking",
            backend="parser",
        )
    return ParserRenderer(parser, query.tokenizer, {**KEYWORDS, **query.chat_template_kwargs})


class ParserRenderer(SeamedRenderer):
    """Renders to text with the parser and encodes it; attribution is ``None``, as text doesn't tell.

    Args:
        parser: What ``ChatTemplateParser.get_parser`` returned.
        tokenizer: The one that the parser was made for.
        keywords: For ``parse``, all of ``KEYWORDS``.
    """

    def __init__(self, parser: Any, tokenizer: Any, keywords: dict[str, Any]) -> None:
        self._parser = parser
        self._tokenizer = tokenizer
        self._keywords = keywords

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """``render(...).token_ids``."""
        text = self._parser.parse(
            [_rllm_message(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            is_first_msg=True,
            tools=list(tools or ()),
            **self._keywords,
        )
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """What ``parse_completion`` finds; never raises. A parser without it gives the text."""
        ids = list(token_ids)
        stops = set(self.get_stop_token_ids())
        at = next((index for index, token in enumerate(ids) if token in stops), None)
        if at is None:
            termination = Termination.TRUNCATED
        else:
            termination = Termination.STOP if at == len(ids) - 1 else Termination.MALFORMED
        try:
            parsed = self._parser.parse_completion(ids)
        except NotImplementedError:
            return ParsedResponse(self._tokenizer.decode(ids[:at], skip_special_tokens=True), termination=termination)
        except Exception:
            return ParsedResponse(self._tokenizer.decode(ids[:at]), termination=Termination.MALFORMED)
        calls = [_core_call(call) for call in parsed.get("tool_calls") or ()]
        return ParsedResponse(parsed.get("content") or "", parsed.get("reasoning") or None, calls, termination)

    def get_stop_token_ids(self) -> list[int]:
        """The parser's, or the tokenizer's end of sequence: what the engines stop at."""
        stops = getattr(self._parser, "stop_sequences", None) or eos_ids(self._tokenizer)
        return [stop for stop in stops if isinstance(stop, int)]

    @cached_property
    def seam(self) -> SeamBridge:
        """Over this renderer; calls are named by what the parser finds in a completion."""

        def calls(ids: Sequence[int]) -> list[tuple[str, str | None]]:
            return sampled_calls(self.parse_response(ids))

        return SeamBridge(self.prompt_ids, self.get_stop_token_ids(), control_ids(self._tokenizer), calls)


def _rllm_message(message: Message) -> dict[str, Any]:
    """A message in normal form as the parser reads it: its word for reasoning is another."""
    return {"reasoning" if key == "reasoning_content" else key: value for key, value in message.items()}


def _core_call(call: Any) -> ToolCall:
    name, arguments = getattr(call, "name", ""), getattr(call, "arguments", None)
    if isinstance(arguments, dict):
        return ToolCall(name, arguments)
    text = arguments if isinstance(arguments, str) else ""
    return ToolCall(name, text, raw=f"{name} {text}".strip(), status=ToolCallStatus.INVALID_JSON)
