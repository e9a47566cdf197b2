"""What ``resolve`` returns: one wrapper around every backend's renderer.

Input is brought to normal form, results are paired with their calls, retention is decided, one lock a tokenizer is held, what
the backend returns is checked against the contract, and what can't be bridged says why. A backend needs none of this.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..errors import MessageError, PinMismatchError, RendererError, RenderError, UnsupportedToolsError
from ..guards.nothing_dropped.trial import Dropped
from ..guards.returned import checked_ids, checked_tokens
from ..guards.sampled_mask.mask import SampledMask
from ..guards.tokenizer_works import lacking
from ..normal_form.ids import as_ids
from ..normal_form.messages import normalize_messages, refuse_media, unencodable
from ..normal_form.pairing import fill_history
from ..normal_form.tokenizer import packed
from ..normal_form.tools import normalize_tools
from ..plugin import in_probe
from ..plugin.discovery import load_backends, warn_once
from ..types import Message, ParsedResponse, RenderedTokens
from .bridging import Bridging
from .resolution import Resolution


class ResolvedRenderer(Bridging):
    """A renderer under the contract of ``Renderer``, with the record of how it was resolved.

    May be used by many threads at once and pickled to another process.

    Attributes:
        resolution: See ``Resolution``.
        backend: Name of the backend.
        name: The backend's name of the renderer.
        has_bridge: Whether ``bridge_to_next_turn`` can return ids at all.
        by_template: Whether its ids are those of the tokenizer's chat template by construction.
        upstream: The backend's own renderer.
        tokenizer: The tokenizer that was passed in, the only one used.
        query: What it was made by: the tokenizer and the options.
    """

    def __repr__(self) -> str:
        return f"<{self._label} for {self.resolution.model!r}, {'bridge' if self.has_bridge else 'no bridge'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        backend, query, coverage, *more = self._made_of
        return ResolvedRenderer, (backend, replace(query, tokenizer=packed(query.tokenizer)), coverage, self.resolution, *more)

    def proof(self) -> Resolution:
        """The resolution with a digest of what this renderer writes: a pin that other sources fulfil if they write the same."""
        installed, given = load_backends(), {"renderer": self, "query": self.query, "backends": ()}
        written = installed.first_answer("rllm_renderer_judge", lambda judgement: judgement.written(), **given)
        if written is None:
            why = "what a renderer writes is proven on the probe conversations of a plugin that can't be used here"
            raise PinMismatchError(why, fix=installed.template_fix())
        return replace(self.resolution, written=written)

    def with_marker_text(self, marker_text: str) -> ResolvedRenderer:
        """The same renderer with another choice of ``marker_text``.

        Raises:
            OptionError, TokenizerError: ``"literal"`` can't be had with this backend or this tokenizer.
        """
        backend, query, coverage, _, parse_check = self._made_of
        options = {name: value for name, value in self.resolution.options.items() if name != "marker_text"}
        options |= {} if marker_text == "allow" else {"marker_text": marker_text}
        return ResolvedRenderer(backend, query, coverage, replace(self.resolution, options=options), marker_text, parse_check)

    @property
    def parses_tool_calls(self) -> bool:
        """Whether tool calls are read out of completions; where not, they stay in the content."""
        return self.why_no_tool_calls is None

    @property
    def why_no_tool_calls(self) -> str | None:
        """Why they aren't, ``None`` where they are."""
        with self._lock:
            return self.traits.why_no_tool_calls()

    def deviations(self) -> dict[str, str]:
        """Where its backend differs from the model's chat template on purpose: names or tags of probes, and why."""
        backend, _, coverage, *_ = self._made_of
        try:
            return {str(name): str(why) for name, why in backend.deviations(coverage).items()}
        except (Exception, SystemExit) as error:
            warn_once(f"backend {backend.name!r}: deviations raised {type(error).__name__}: {error}; it is taken to have none")
            return {}

    # Rendering

    @cached_property
    def _sampled_mask(self) -> SampledMask:
        return SampledMask(self.render_ids, self.stops)

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids with attribution; see ``Renderer``.

        Raises:
            MessageError, ToolError: The input can't be used; ``index`` tells which.
            RenderError: The backend's upstream refuses it.
        """
        self._sampled_mask.learn()
        prepared, declared = self._prepared(messages, tools)
        out = self._upstream("render", prepared, declared, add_generation_prompt)
        tokens = checked_tokens(out, self.backend, len(prepared))
        if self._span_encoding is not None:
            tokens = self._span_encoding.after_render(tokens, prepared)
        self._nothing_dropped.after_render(prepared, declared, add_generation_prompt)
        return self._sampled_mask.after_render(tokens)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Messages to ids; errors as in ``render``."""
        prepared, declared = self._prepared(messages, tools)
        out = self._upstream("render_ids", prepared, declared, add_generation_prompt)
        ids = checked_ids(out, self.backend, "render_ids")
        if self._span_encoding is not None:
            ids = self._span_encoding.ids(ids, prepared)
        self._nothing_dropped.after_render(prepared, declared, add_generation_prompt)
        return list(ids) if ids is out else ids

    def dropped(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> tuple[Dropped, ...]:
        """What a render of these messages leaves out; always empty where ``dropped="error"`` lets it pass."""
        return self._nothing_dropped.dropped(*self._prepared(messages, tools), add_generation_prompt)

    def _prepared(
        self, messages: Sequence[Message], tools: Sequence[Any] | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        """Messages and tools in normal form, results with the names of their calls, as the backend gets them."""
        prepared = normalize_messages(messages)
        declared = None if tools is None else normalize_tools(tools)
        if not self.traits.supports_media:
            refuse_media(prepared, self._label)
        if self.traits.fills_result_names:
            prepared = fill_history(prepared)
        if self._marker_text is None:
            return prepared, declared
        return self._marker_text.messages(prepared), self._marker_text.tools(declared)

    def _upstream(
        self, method: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, generation_prompt: bool
    ) -> Any:
        """What the backend makes of the messages; what it refuses has the index of the message from which on it does."""
        try:
            return self._called(method, messages, tools, generation_prompt)
        except UnsupportedToolsError as error:  # of a format without tools: none of them shows
            error.index = 0 if error.index is None and tools else error.index
            raise
        except (RenderError, MessageError) as error:
            if not in_probe.get():
                _locate(error, lambda beginning: self._called(method, beginning, tools, generation_prompt), messages)
            raise

    def _called(
        self, method: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, generation_prompt: bool
    ) -> Any:
        try:
            with self._lock:
                return getattr(self.upstream, method)(messages, tools=tools, add_generation_prompt=generation_prompt)
        except RendererError:
            raise
        except (Exception, SystemExit) as error:
            lacks = lacking(self.query.tokenizer, error, self._label)
            raise (
                lacks
                or unencodable(messages, tools)
                or RenderError(f"{self._label} can't render these messages: {type(error).__name__}: {error}")
            ) from error

    # Parsing and stops

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed and checked against them; see ``Renderer``. Never raises.

        Calls of a format without ids get generated ones. ``prompt_ids`` left out means this renderer's own opener.
        """
        try:
            ids = as_ids(token_ids, "token_ids", limit=self._limit)
            prompt = None if prompt_ids is None else as_ids(prompt_ids, "prompt_ids", limit=self._limit)
        except Exception as error:  # TokenIdError, or what an iterator raises
            return self._unreadable(error)
        return self._parse(list(ids), tools, prompt)

    def as_ids(self, ids: Any, what: str = "token ids") -> list[int]:
        """Ids of this vocabulary as a list of ``int``, from a list, a tuple, an array of NumPy or torch; a list isn't copied.

        Raises:
            TokenIdError: They aren't ids; ``what`` names them in the error.
        """
        return as_ids(ids, what, limit=self._limit)

    def get_stop_token_ids(self) -> list[int]:
        """Ids at which an engine must stop sampling: the format's, the tokenizer's, and its generation config's."""
        return sorted(self.stops | self.more_stops)

    def get_stop_strings(self) -> list[str]:
        """Strings at which an engine must stop sampling; for formats whose stop isn't one token, and engines that take text."""
        return list(self.stop_strings)


def _locate(
    error: RenderError | MessageError, render: Callable[[list[dict[str, Any]]], object], messages: list[dict[str, Any]]
) -> None:
    """Bisects for the first message that makes rendering fail, and gives the error its index (0 where no beginning can be
    rendered): templates and upstreams don't tell. Costs fewer renders than twice the logarithm of the length."""
    if error.index is not None or not messages:
        return

    def refused(count: int) -> bool:
        try:
            render(messages[:count])
        except (Exception, SystemExit):
            return True
        return False

    # From the end, as a beginning may be refused for another reason (a system message alone).
    high, low, step = len(messages), len(messages) - 1, 1
    while low > 0 and refused(low):
        high, low, step = low, max(low - step, 0), step * 2
    error.index = low = bisect_left(range(high), True, low + 1, key=refused) - 1
    first, *rest = str(error).split("\n")
    error.args = ("\n".join([f"{first} (from message {low} on, {messages[low]['role']})", *rest]), *error.args[1:])
