"""A parser of completions for any renderer, learned by experiment and proven by round trips, as ``SeamBridge`` is for bridges.

A checkpoint that nobody wrote a parser for still has a renderer. It is asked to render probe turns whose reasoning, content,
names, keys and values are words that nothing else contains: what stands around these words is the format. Each hypothesis
about it must then read back every probe turn; the first that does is the parser. What no hypothesis reads back isn't
claimed: ``parses_tool_calls`` is False, and ``why_no_tool_calls`` says why.

Ids are parsed, never decoded text: a control id is a control id, spelled text is text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from functools import cached_property
from typing import Any

from rllm_renderer_core.normal_form.arguments import json_status
from rllm_renderer_core.normal_form.ids import as_ids
from rllm_renderer_core.normal_form.tokenizer import control_ids, special_ids
from rllm_renderer_core.types import ParsedResponse, ToolCall, ToolCallStatus

from .calls.attempt import Attempt, Declined
from .id_text import IdText
from .learning import Learned, learn
from .literals import core
from .prompt_end import ends_inside_reasoning, last_turn


class LearnedParser:
    """Parses completions of a renderer that can only render. Learned on first use; pass one renderer to one parser.

    Not safe in several threads at once before it has learned; what ``resolve`` returns holds a lock.

    Args:
        render: ``render(messages, tools=, add_generation_prompt=)`` to prompt ids, like ``Renderer.render_ids``. What it raises
            is a probe that it refuses.
        decode: Ids to text, with control tokens (``skip_special_tokens=False``) and as they are
            (``clean_up_tokenization_spaces=False``).
        stop_ids: The ids at which sampling stops.
        control_ids: Ids that ordinary text doesn't become: all added tokens.
        special_ids: Those among them that never are part of a message's text; all control ids where it is left out.

    Raises:
        TokenIdError: ``stop_ids`` aren't ids.
    """

    def __init__(
        self,
        render: Callable[..., Sequence[int]],
        decode: Callable[[list[int]], str],
        stop_ids: Iterable[int],
        control_ids: Iterable[int],
        special_ids: Iterable[int] | None = None,
    ) -> None:
        self._render = render
        self._stop_ids = frozenset(as_ids(list(stop_ids) if isinstance(stop_ids, Set) else stop_ids, "stop_ids"))
        control = frozenset(control_ids) | self._stop_ids
        self._ids = IdText(decode, control, control if special_ids is None else special_ids)

    @classmethod
    def of(cls, render: Callable[..., Sequence[int]], tokenizer: Any, stop_ids: Iterable[int]) -> LearnedParser:
        """The parser of a renderer whose ids are those of this tokenizer."""
        cleans = bool(getattr(tokenizer, "clean_up_tokenization_spaces", False))  # Llama 3: "x != y" becomes "x!= y"
        more = {"clean_up_tokenization_spaces": False} if cleans else {}

        def decode(ids: list[int]) -> str:
            return str(tokenizer.decode(ids, skip_special_tokens=False, **more))

        return cls(render, decode, stop_ids, control_ids(tokenizer), special_ids(tokenizer))

    # What was learned

    @property
    def parses_tool_calls(self) -> bool:
        """Whether a way of writing tool calls is proven."""
        return self._learned.format.calls is not None

    @property
    def why_no_tool_calls(self) -> str | None:
        """Why none is, where none is."""
        return self._learned.why_no_calls

    @property
    def why_no_text(self) -> str | None:
        """Why not even text is proven (then all of a completion is content), ``None`` where it is."""
        return self._learned.why_no_text

    @property
    def reasoning(self) -> str:
        """``"proven"``, ``"assumed"`` (its close is the twin of what the prompt opens, and never shown), or ``"not shown"``."""
        return self._learned.reasoning

    @property
    def arguments(self) -> str | None:
        """How a call's arguments are written, in words; ``None`` where that isn't proven."""
        calls = self._learned.format.calls
        return calls.style.label if calls is not None else None

    @property
    def limits(self) -> tuple[str, ...]:
        """Probe turns that aren't read back but flagged, or that no completion makes."""
        return self._learned.limits

    @property
    def proofs(self) -> int:
        """How many probe turns were read back."""
        return self._learned.proofs

    def __str__(self) -> str:
        """What was learned, in one line."""
        if self.why_no_text is not None:
            return f"completions are content up to their stop, no reasoning or calls: {self.why_no_text}"
        calls = f"tool calls: {self.arguments}" if self.parses_tool_calls else f"no tool calls: {self.why_no_tool_calls}"
        return f"{calls}; reasoning {self.reasoning}; proven by {self.proofs} round trips"

    @property
    def delimiters(self) -> dict[str, str]:
        """What stands around the parts of a turn, by its place; what is empty is left out."""
        form = self._learned.format
        literals = {
            "reasoning opens": form.reasoning_open,
            "reasoning closes": form.reasoning_close,
            "content opens": " or ".join(map(core, form.content_opens)),
            "content closes": form.content_close,
        }
        if form.calls is not None:
            calls = form.calls
            literals |= {"before calls": calls.before, "between calls": calls.between or "", "after calls": calls.after}
        return {place: self._ids.plain(literal) for place, literal in literals.items() if literal}

    @property
    def reasoning_ids(self) -> tuple[int, int] | tuple[()] | None:
        """The ids that open and close reasoning; ``()`` where there is none; ``None`` where a marker isn't one id."""
        if self._learned.reasoning == "not shown":
            return ()
        form = self._learned.format
        opening, closing = self._ids.id_of(core(form.reasoning_open)), self._ids.id_of(core(form.reasoning_close))
        return None if opening is None or closing is None else (opening, closing)

    @property
    def stop_ids(self) -> frozenset[int]:
        """Stop ids, with those that the history shows behind a turn where the given ones don't show."""
        shown = (self._ids.id_of(code) for code in self._learned.format.stops)
        return self._stop_ids | {token for token in shown if token is not None}

    def response_template(self) -> dict[str, Any]:
        """What was learned as transformers' ``response_template``, proven by its engine.

        Raises:
            Declined: It can't be said or proven so, with the reason.
        """
        from ..chat_template.response_template import proven

        return proven(self._known(), self._render, self._ids)

    def misreads(self, template: Any) -> list[str]:
        """The probe turns that transformers' engine doesn't read back by a template that the checkpoint ships, by their labels.

        Raises:
            Declined: Nothing can be learned to prove it by, or the installed transformers has no engine.
        """
        from ..chat_template.response_template import misread

        return misread(template, self._known(), self._render, self._ids)

    def _known(self) -> Learned:
        if self.why_no_text is not None:
            raise Declined(self.why_no_text)
        return self._learned

    # Parsing

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Sampled ids, parsed; see ``Renderer``. Tools are in normal form. Never raises.

        Without ``prompt_ids`` the prompt is taken to end as the renderer's own generation prompt does.
        """
        learned = self._learned  # first: learning gives the format's control ids their characters
        ids, form = self._ids.fork(), learned.format
        text = ids.show(token_ids)
        opened = form.prompt_opens if prompt_ids is None else ends_inside_reasoning(form, ids, prompt_ids)
        turn = form.parse(text, opened, tools, ids.special_in(text) if learned.why_no_text is None else frozenset())
        return ParsedResponse(
            content=ids.plain(turn.content),
            reasoning_content=None if turn.reasoning is None else ids.plain(turn.reasoning),
            tool_calls=[_tool_call(ids, attempt) for attempt in turn.calls],
            termination=turn.termination,
            reasoning_complete=turn.reasoning_complete,
        )

    def last_turn(self, prompt_ids: Sequence[int]) -> Sequence[int]:
        """The ids of a prompt from what opens its last assistant's turn on; all where nothing does."""
        return last_turn(self._learned.format, self._ids.fork(), prompt_ids)

    @cached_property
    def _learned(self) -> Learned:
        return learn(self._render, self._ids, self._stop_ids)


def _tool_call(ids: IdText, attempt: Attempt) -> ToolCall:
    """The attempt in plain text, checked once more there: a control id's text may break the JSON around it."""
    status, arguments = attempt.status, ids.plain_value(attempt.arguments)
    if status is ToolCallStatus.OK and isinstance(arguments, str):
        status = json_status(arguments)
    name = ids.plain(attempt.name)
    ident = ids.plain(attempt.id) if attempt.id else None
    return ToolCall(name, arguments, id=ident, raw=ids.plain(attempt.raw), status=status)
