"""``Backend``, what it is asked, the three things that ``covers`` may answer, and what it may say of its renderers."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from ..errors import ContractError
from ..types import Renderer, ToolCall


class Match(IntEnum):
    """How a backend's coverage came about; decides between backends of equal priority."""

    FALLBACK = 0
    """Anything goes: a chat template of unknown make."""
    PARITY = 1
    """Found by comparing ids with the tokenizer's template."""
    FAMILY = 2
    """An anchored rule on the model's name."""
    EXACT = 3
    """The very name is listed."""
    NAMED = 4
    """The user named the renderer."""


@dataclass(frozen=True)
class Coverage:
    """ "I serve this model": which renderer, how well it matches, whether it bridges, and why.

    Args:
        renderer: The backend's own name of the renderer, as ``resolve(renderer=...)`` takes it.
        match: See ``Match``.
        has_bridge: Whether ``bridge_to_next_turn`` can return ids at all.
        reason: One line for the user: "listed in MODEL_RENDERER_MAP".
        data: Anything that ``create`` needs; must be picklable.
        dated: Whether its ids show the day: then it writes ``Query.date`` and asks no clock, and a ``Resolution`` records it.
        by_experiment: Whether bridges are proven call by call by experiments on the renderer, instead of known by its format.
        by_template: Whether its ids are those of the tokenizer's chat template, so that there is nothing to compare them with.
    """

    renderer: str
    match: Match
    has_bridge: bool
    reason: str
    data: Any = None
    dated: bool = False
    by_experiment: bool = False
    by_template: bool = False


@dataclass(frozen=True)
class Unavailable:
    """ "I know this model, but can't serve it here." It never wins; its fix is shown to whoever ends up with less."""

    reason: str
    fix: str


@dataclass(frozen=True)
class Query:
    """What a backend is asked. ``tokenizer`` is ``None`` where only coverage is asked for.

    Attributes:
        model: The model's name as the user gave it, or the tokenizer's ``name_or_path``.
        tokenizer: The one tokenizer object to use; never load another by name.
        renderer: The renderer that the user named, or ``None``. A backend that has one of that name covers the query,
            whatever the model; one that hasn't returns ``None``.
        backend: The backend that the user named, or ``None``. Only that one is asked then; for backends that want to be
            chosen in no other way.
        date: The day that a renderer writes where its format shows one, ``YYYY-MM-DD``: the one that ``resolve`` was given or
            recorded; the day on which the query is made where none is said.

    The others are options of ``resolve``; see ``Options``. ``thinking_retention`` is enforced by the core.
    """

    model: str
    tokenizer: Any = None
    renderer: str | None = None
    thinking: bool | None = None
    thinking_retention: str = "all"
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    image_processor: Any = None
    template_bridge: bool = True
    backend: str | None = None
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())


class Backend:
    """One source of renderers. Subclass it, set the class attributes, and return an instance from the hook.

    Instances must be picklable and cheap: they are made at each discovery, before anything is imported.

    Attributes:
        name: What ``resolve(backend=...)`` takes.
        priority: The highest among those that cover wins. Built-in values: prime 100, tinker 50, fireworks 40,
            chat-template 0; 80 is the advice for a hand-written renderer with an exact list of models.
        options: Which of ``thinking``, ``chat_template_kwargs``, ``image_processor`` it can honour.
            Any other that the user sets is refused by the core with an ``OptionError``.
        spellings: Which of rLLM's spellings address it: ``renderer_family``, ``renderer_name``.
        upstream: Distributions that it wraps; their versions are part of a ``Resolution``.
        sources: The package that has the renderers of a distribution in ``upstream``, dotted, where that isn't the
            distribution's name with underscores: a digest of its files is part of a ``Resolution`` too.
        own_vocabulary: Names of renderers that make control ids of message text with a vocabulary of their own, not with
            ``query.tokenizer``; ``"*"`` for all. ``marker_text="literal"`` is refused for them. For information, as
            ``resolve`` finds out by itself.
    """

    name: ClassVar[str]
    priority: ClassVar[int]
    options: ClassVar[frozenset[str]] = frozenset()
    spellings: ClassVar[frozenset[str]] = frozenset()
    upstream: ClassVar[tuple[str, ...]] = ()
    sources: ClassVar[Mapping[str, str]] = {}
    own_vocabulary: ClassVar[frozenset[str]] = frozenset()

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        """The coverage predicate: cheap, without a tokenizer, by exact or anchored names, never by substring."""
        raise NotImplementedError

    def create(self, query: Query, coverage: Coverage) -> Renderer:
        """Build the renderer that ``covers`` promised, on ``query.tokenizer``.

        Raises:
            OptionError: For a value of an option that this renderer can't honour.
        """
        raise NotImplementedError

    def renderer_names(self) -> Iterable[str]:
        """All names that ``resolve(renderer=...)`` can ask of this backend; used in error messages."""
        return ()

    def models(self) -> Iterable[str]:
        """Names of models that it lists, where there is a list: ``doctor`` looks for two backends that claim one equally."""
        return ()

    def candidates(self, query: Query) -> Iterable[Coverage]:
        """Coverages to try by token parity on a tokenizer whose name nobody knows; best guess first.

        The core asks for each by its name, as ``resolve(renderer=...)`` would: what can't be named can't be pinned.
        """
        return ()

    def parsing(self, query: Query, coverage: Coverage) -> str:
        """One line on how this renderer reads completions, where that had to be learned; ``explain`` shows it.

        Asked only with a tokenizer. It may cost what building the renderer costs.
        """
        return ""

    def deviations(self, coverage: Coverage) -> Mapping[str, str]:
        """Where this renderer differs from the model's chat template on purpose: names or tags of probes, and why.

        Both are in ``rllm_renderer_template.parity.probes``. Such a difference is listed as documented, and is no
        warning and no error; a renderer that has one on a probe still isn't equal to the template, and is never found by
        parity there.
        """
        return {}


in_probe: ContextVar[bool] = ContextVar("in_probe", default=False)
"""Whether what is rendered right now is a probe conversation."""


@contextmanager
def rendering_probes() -> Iterator[None]:
    """While probe conversations are rendered: renderers that log what a conversation loses have no news to tell then."""
    token = in_probe.set(True)
    try:
        yield
    finally:
        in_probe.reset(token)


_nothing: Callable[[], None] = type(None)  # called, it gives None


@dataclass(frozen=True)
class RendererTraits:
    """Optional facts about a renderer: it has them in an attribute ``traits``; without one all are as here.

    What may have to be learned first is a function without arguments, called when it is needed, with the tokenizer's lock held.

    Attributes:
        stop_strings: Stops that aren't one id, for engines that stop at text: ``["\\n\\nUser:"]``.
        lazy_stops: Its stop ids cost renders, and are asked for when they are needed instead of at ``resolve``.
        takes_views: The previous prompt of a bridge may be a read-only sequence in place of a list, so that no long history is
            copied.
        supports_media: Image parts are carried.
        fills_result_names: Tool results without ``name`` get the name of their call. False for formats that show a name
            only where the client gives one (Kimi).
        encodes_spans_apart: It encodes a header and the text behind it in separate calls, by which BPE merges may differ
            from the chat template's (``assistant\\n`` + ``\\n\\nfour``): the core encodes such spans again, in one call.
        reasoning_ids: The ids that open and close reasoning, where the backend knows them; ``()`` for a format without
            reasoning. ``None``: the core learns them from what is rendered.
        second_parser: A parser for completions that its own gives up on, or ``None``.
        written_calls: Tool calls to the text that the model writes for them, where its render doesn't show that (Kimi K3).
        delimiter_words: Words that the model writes beside special tokens, and no render shows (harmony's ``commentary``).
        why_no_tool_calls: Why tool calls can't be read out of completions, ``None`` where they can.
    """

    stop_strings: Sequence[str] = ()
    lazy_stops: bool = False
    takes_views: bool = False
    supports_media: bool = False
    fills_result_names: bool = True
    encodes_spans_apart: bool = False
    reasoning_ids: Callable[[], tuple[int, int] | tuple[()] | None] = _nothing
    second_parser: Callable[[], Any] = _nothing
    written_calls: Callable[[Sequence[ToolCall]], str] | None = None
    delimiter_words: frozenset[str] = frozenset()
    why_no_tool_calls: Callable[[], str | None] = _nothing

    @classmethod
    def of(cls, renderer: Renderer) -> RendererTraits:
        """Those of a backend's renderer: the only attribute that the core reads of it beside the protocol's methods."""
        found = getattr(renderer, "traits", cls())
        if not isinstance(found, cls):
            raise ContractError(f"traits of {type(renderer).__name__} must be RendererTraits, not {type(found).__name__}")
        return found
