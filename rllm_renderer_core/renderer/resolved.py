"""What ``resolve`` returns: one wrapper around every backend's renderer.

Input is brought to normal form, results are paired with their calls, retention is decided, one lock a tokenizer is held, what
the backend returns is checked against the contract, and what can't be bridged says why. A backend needs none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from ..errors import ContractError, MessageError, PinMismatchError, RendererError, RenderError, UnsupportedToolsError
from ..guards.marker_text.marked import MarkedTokenizer
from ..guards.marker_text.marker_text import MarkerText
from ..guards.nothing_dropped.dropped import DropCheck, Dropped
from ..guards.span_encoding.joined import Joined
from ..normal_form.messages import normalize_messages, normalize_tools, refuse_media
from ..normal_form.pairing import fill_history
from ..normal_form.returned import checked_ids, checked_tokens
from ..normal_form.tokenizer import id_limit, lacking, lock_of, packed
from ..plugin import Backend, Coverage, Query, in_probe
from ..plugin.discovery import load_backends, warn_once
from ..probing.text import without_cleanup
from ..types import Message, ParsedResponse, RenderedTokens, Renderer
from .bridge_methods import BridgeMethods
from .bridging import Guarded
from .guards import Guards
from .refused import locate
from .resolution import Resolution


class ResolvedRenderer(BridgeMethods):
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

    def __init__(
        self,
        backend: Backend,
        query: Query,
        coverage: Coverage,
        resolution: Resolution,
        *,
        marker_text: str = "allow",
        parse_check: bool = True,
    ) -> None:
        tokenizer = without_cleanup(query.tokenizer)
        text = MarkerText(marker_text, tokenizer)
        inner = backend.create(replace(query, tokenizer=text.tokenizer), coverage)
        if not isinstance(inner, Renderer):
            raise ContractError(f"backend {backend.name!r} created a {type(inner).__name__}, which isn't a Renderer")
        self.resolution = resolution
        self.backend = resolution.backend
        self.name = resolution.renderer
        self.has_bridge = resolution.has_bridge
        self.by_template = coverage.by_template
        self.upstream = inner
        self.tokenizer = query.tokenizer
        self.query = query
        self._made_of = (backend, query, coverage, resolution, marker_text, parse_check)
        self._lock = lock_of(query.tokenizer)
        self._media = bool(getattr(inner, "supports_media", False))
        self._names_results = bool(getattr(inner, "wants_result_names", True))
        self._text = text
        name = f"{self.backend}:{self.name}"
        with self._lock:
            text.prove(inner, name)
        self._limit = id_limit(query.tokenizer)
        self._joined = Joined(inner.render_ids, tokenizer, self._lock)
        dropped = resolution.options.get("dropped", "error")
        self._dropping = DropCheck(inner.render_ids, getattr(query.tokenizer, "decode", None), name, self._lock, dropped)
        self._guarded = Guarded(inner, query, name, self._lock, text, self._joined, self._dropping)
        if not coverage.by_template:  # whose stops cost renders, and wait until they are asked for
            _ = self._guards  # wrong stops are refused here

    @cached_property
    def _guards(self) -> Guards:
        backend, query, coverage, _, marker_text, parse_check = self._made_of
        marked = partial(_create_marked, backend, query, coverage) if marker_text != "literal" else None
        return Guards(self._guarded, self.render_ids, marked, parse_check=parse_check)

    def __repr__(self) -> str:
        return f"<{self.backend}:{self.name} for {self.resolution.model!r}, {'bridge' if self.has_bridge else 'no bridge'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        backend, query, coverage, _, *more = self._made_of
        return _restore, (backend, replace(query, tokenizer=packed(query.tokenizer)), coverage, self.resolution, *more)

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
        backend, query, coverage, resolution, _, parse_check = self._made_of
        options = {**resolution.options, "marker_text": marker_text}
        if marker_text == "allow":
            del options["marker_text"]
        return _restore(backend, query, coverage, replace(resolution, options=options), marker_text, parse_check)

    @property
    def parses_tool_calls(self) -> bool:
        """Whether tool calls are read out of completions; where not, they stay in the content."""
        return self.why_no_tool_calls is None

    @property
    def why_no_tool_calls(self) -> str | None:
        """Why they aren't, ``None`` where they are: as the backend's renderer says in an attribute of this name."""
        with self._lock:
            why = getattr(self.upstream, "why_no_tool_calls", None)
        return None if why is None else str(why)

    def deviations(self) -> dict[str, str]:
        """Where its backend differs from the model's chat template on purpose: names or tags of probes, and why."""
        backend, _, coverage, *_ = self._made_of
        try:
            return {str(name): str(why) for name, why in backend.deviations(coverage).items()}
        except (Exception, SystemExit) as error:
            warn_once(f"backend {backend.name!r}: deviations raised {type(error).__name__}: {error}; it is taken to have none")
            return {}

    # Rendering

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Messages to ids with attribution; see ``Renderer``.

        Raises:
            MessageError, ToolError: The input can't be used; ``index`` tells which.
            RenderError: The backend's upstream refuses it.
        """
        self._guards.masks.learn()
        out: RenderedTokens = self._rendered("render", messages, tools, add_generation_prompt)
        return self._guards.masks.correct(out)

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Messages to ids; errors as in ``render``."""
        return list(self._rendered("render_ids", messages, tools, add_generation_prompt))

    def dropped(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> tuple[Dropped, ...]:
        """What a render of these messages leaves out; always empty where ``dropped="error"`` lets it pass."""
        return self._dropping.dropped(self._prepared(messages), self._text.tools(normalize_tools(tools)), add_generation_prompt)

    def _rendered(self, method: str, messages: Sequence[Message], tools: Sequence[Any] | None, opener: bool) -> Any:
        """What the backend made of the messages, checked: nothing of them is dropped."""
        prepared = self._prepared(messages)
        declared = self._text.tools(normalize_tools(tools))
        try:
            out = self._upstream(method, prepared, declared, opener)
        except UnsupportedToolsError as error:  # of a format without tools: none of them shows
            error.index = 0 if error.index is None and declared else error.index
            raise
        except (RenderError, MessageError) as error:
            if not in_probe.get():
                locate(error, lambda beginning: self._upstream(method, beginning, declared, opener), prepared)
            raise
        if method == "render":
            out = self._joined.tokens(checked_tokens(out, self.backend, messages=len(prepared)), prepared)
        else:
            out = self._joined.ids(checked_ids(out, self.backend, "render_ids"), prepared)
        self._dropping.check(prepared, declared, opener)
        return out

    def _upstream(self, method: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool) -> Any:
        try:
            with self._lock:
                return getattr(self.upstream, method)(messages, tools=tools, add_generation_prompt=opener)
        except RendererError:
            raise
        except (Exception, SystemExit) as error:
            lacks = lacking(self.query.tokenizer, error, f"{self.backend}:{self.name}")
            raise lacks or RenderError(
                f"{self.backend}:{self.name} can't render these messages: {type(error).__name__}: {error}"
            ) from error

    def _prepared(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        out = normalize_messages(messages)
        if not self._media:
            refuse_media(out, f"{self.backend}:{self.name}")
        return self._text.messages(fill_history(out) if self._names_results else out)

    # Parsing and stops

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed and checked against them; see ``Renderer``. Never raises.

        Calls of a format without ids get generated ones. ``prompt_ids`` left out means this renderer's own opener.
        """
        try:
            ids = self.as_ids(token_ids, "token_ids")
            prompt = None if prompt_ids is None else self.as_ids(prompt_ids, "prompt_ids")
        except Exception as error:  # TokenIdError, or what an iterator raises
            return self._guards.parsing.unreadable(error)
        return self._guards.parsing.parse(list(ids), tools, prompt)

    def get_stop_token_ids(self) -> list[int]:
        """Ids at which an engine must stop sampling: the format's, the tokenizer's, and its generation config's."""
        return sorted(self._guards.stops | self._guards.parsing.more_stops)

    def get_stop_strings(self) -> list[str]:
        """Strings at which an engine must stop sampling; for formats whose stop isn't one token, and engines that take text."""
        return list(self._guards.stop_strings)


def _create_marked(backend: Backend, query: Query, coverage: Coverage) -> Renderer:
    return backend.create(replace(query, tokenizer=MarkedTokenizer(without_cleanup(query.tokenizer))), coverage)


def _restore(
    backend: Backend, query: Query, coverage: Coverage, resolution: Resolution, marker_text: str, parse_check: bool
) -> ResolvedRenderer:
    return ResolvedRenderer(backend, query, coverage, resolution, marker_text=marker_text, parse_check=parse_check)
