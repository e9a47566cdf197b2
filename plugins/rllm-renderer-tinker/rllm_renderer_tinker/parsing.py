"""Completions: of base models by upstream, of gpt-oss by its blocks, of all others by what is learned from the renders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rllm_renderer_template import LearnedParser, block_parser, learned_parser

from rllm_renderer_core.normal_form.tokenizer import chat_template, reasoning_ids
from rllm_renderer_core.types import ParsedResponse, Termination

if TYPE_CHECKING:
    from .renderer import TinkerRenderer


class Parser:
    """Parses completions of one renderer.

    Upstream's own parsers give up on a completion without its stop, raise on some, and give calls without their text.

    Args:
        renderer: What the completions are for; the parser learns from its renders, on first use.
        stop_ids: The ids at which sampling stops.
        stop_strings: The texts at which sampling stops, of base models' ``role_colon``.
        harmony: Whether turns are gpt-oss's lists of messages, which come in more orders than a render shows.
    """

    def __init__(
        self, renderer: TinkerRenderer, tokenizer: Any, stop_ids: Sequence[int], stop_strings: Sequence[str], *, harmony: bool
    ) -> None:
        self._renderer, self._tokenizer = renderer, tokenizer
        self._stop_ids, self._stop_strings = stop_ids, stop_strings
        self._blocks = block_parser(tokenizer) if harmony else None
        self.delimiter_words = self._blocks.delimiter_words if self._blocks is not None else frozenset[str]()

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """See ``Renderer``; never raises."""
        if self._stop_strings:
            return self._of_base_model(token_ids)
        parser = self._blocks or self._learned
        return parser.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)

    def why_no_tool_calls(self) -> str | None:
        """Why calls can't be read out of completions, ``None`` where they can."""
        if self._stop_strings:
            return f"renderer {self._renderer.name!r} has no tool calls upstream"
        return None if self._blocks is not None else self._learned.why_no_tool_calls

    def second(self) -> LearnedParser | None:
        """For completions that the parser of gpt-oss gives up on."""
        return self._learned if self._blocks is not None else None

    @cached_property
    def _learned(self) -> LearnedParser:
        """What is learned from the renders; from the template, where that shows calls (Llama 3) or reasoning (Ministral) and
        upstream doesn't."""
        own = LearnedParser.of(self._renderer.render_ids, self._tokenizer, self._stop_ids)
        shows_calls = self._renderer.shows_calls
        if shows_calls and (not reasoning_ids(self._tokenizer) or own.reasoning != "not shown"):
            return own
        found = self._of_template()
        return own if found is None or (shows_calls and found.reasoning == "not shown") else found

    def _of_template(self) -> LearnedParser | None:
        """The template's parser, where upstream opens turns as that template does."""
        if not self._stop_ids or chat_template(self._tokenizer) is None:
            return None
        question = [{"role": "user", "content": "ping"}]
        prompt = self._tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=True, return_dict=False)
        size = len(self._renderer.opener) + 1  # with what closes the question
        if list(prompt)[-size:] != self._renderer.render_ids(question, add_generation_prompt=True)[-size:]:
            return None
        parser = learned_parser(self._tokenizer, {}, self._stop_ids)
        return parser if parser.parses_tool_calls else None

    def _of_base_model(self, ids: Sequence[int]) -> ParsedResponse:
        """By upstream, whose verdict was a bool before it was an enum; ids that the vocabulary lacks have no text."""
        body = [token for token in ids if 0 <= token < len(self._tokenizer)]
        message, verdict = self._renderer.upstream.parse_response(body)
        clean = verdict if isinstance(verdict, bool) else bool(verdict.is_clean)
        stopped = clean or any(stop in self._tokenizer.decode(body) for stop in self._stop_strings)
        termination = Termination.STOP if clean else Termination.MALFORMED if stopped else Termination.TRUNCATED
        content = message["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content if part["type"] == "text")
        return ParsedResponse(content, termination=termination)
