"""The parse contract: what a backend makes of a completion, checked against the sampled ids.

In two ways, as each catches what the other can't. The accounting walks the completion's text: reasoning, content, calls' raw
texts and frame must be all of it, in order. It catches text that vanished, moved or is there twice. And each OK call is
written in the format again, and must give its own text. That catches arguments that are missing, cut, of another type, or of
another call. Nor is a call OK that stands in a thought, unless the format's calls end one. What fails is never OK;
it stays visible, and ``lossless`` and ``loss`` say why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...errors import ContractError
from ...normal_form.arguments import json_status
from ...normal_form.tokenizer import controlling_tokens, spelling
from ...plugin import RendererTraits
from ...probing.format import Format
from ...probing.text import Atom
from ...types import ParsedResponse, Termination, ToolCall, ToolCallStatus
from .accounting import (
    Unaccounted,
    account,
    delimiter_parts,
    drafts_in,
    kept_whole,
    located,
    raw_spans,
    thoughts,
    with_second_closes,
)
from .rewriting import Rewriter

SPELLED = "ordinary tokens spell a control token in it, and were read as that token"
DRAFT = "it stands in the reasoning"


class ParseCheck:
    """Checks completions of one renderer.

    Args:
        form: The delimiters of its format.
        tokenizer: The one that it renders with.
        traits: Its stop strings, and what the backend knows of calls and delimiters better than its render shows.
        write: Messages in normal form to the text of their prompt, by the backend's own renderer.
    """

    def __init__(
        self, form: Format, tokenizer: Any, traits: RendererTraits, write: Callable[[list[dict[str, Any]]], str]
    ) -> None:
        self._format, self._decoder = form, form.decoder
        self._tokenizer = tokenizer
        self._stop_strings, self._delimiter_words = traits.stop_strings, traits.delimiter_words
        self._rewriter = Rewriter(write, traits.written_calls)

    def text(self, ids: Sequence[int]) -> str:
        """The text of a completion up to its stop; empty where an id has none."""
        try:
            return self._decoder.text(self._before_stop(ids))
        except Exception:
            return ""

    def marks_in(self, ids: Sequence[int], content: str) -> bool:
        """Whether control tokens of a completion stand in what became its content."""
        if not content:
            return False
        try:
            return any(
                self._decoder.text([token]) in content for token in self._decoder.control.intersection(self._before_stop(ids))
            )
        except Exception:
            return False

    def spells(self, ids: Sequence[int]) -> bool:
        """Whether ordinary ids of a completion spell a control token."""
        try:
            return any(not atom.control and self._control_texts.search(atom.text) for atom in self._decoder.atoms(ids))
        except Exception:
            return False

    def _before_stop(self, ids: Sequence[int]) -> Sequence[int]:
        return ids[: next((index for index, token in enumerate(ids) if token in self._format.stops), len(ids))]

    def checked(
        self,
        ids: list[int],
        out: ParsedResponse,
        prompt_ids: Sequence[int] | None = None,
        tools: Sequence[Any] | None = None,
        *,
        ended: bool = False,
    ) -> ParsedResponse:
        """What the backend returned, with the status that follows from the check.

        Args:
            ids: The completion.
            out: What the backend made of it.
            prompt_ids: What it was sampled behind, which may have closed the reasoning already.
            tools: Declarations in normal form.
            ended: Whether a stop that isn't the format's stood behind the ids.
        """
        try:
            atoms, unknown = self._decoder.atoms(ids), self._decoder.unknown(ids)
        except Exception:
            return self._lossy(out, "an id isn't in the vocabulary and has no text", every=True)
        if unknown is not None:
            return self._lossy(out, f"id {unknown} isn't in the vocabulary and has no text", every=True)
        ending = self._ending(prompt_ids or ())
        out = self._rewritten(out, atoms, ending, tools)
        atoms = self._without_stop_strings(atoms)
        closed = out.reasoning_content is None and ending == 1
        marked = with_second_closes(atoms, self._format.reasoning_texts, closed=closed)
        stop = next((atom.start for atom in atoms if atom.control and atom.text in self._format.stop_texts), None)
        before = [atom for atom in atoms if stop is None or atom.start < stop]
        twice = not out.tool_calls and any(one != other for one, other in zip(marked, before, strict=False))
        if (out.termination is Termination.STOP or ended) and (twice or self._has_special_token(out.content, before)):
            out = replace(out, termination=Termination.MALFORMED)
        try:
            account(marked, out, self._delimiters_beside(out), stop)
        except Unaccounted as reason:
            if twice:
                body = self._before_stop(ids)
                out = kept_whole(self._decoder.atoms(body), out, self._format.reasoning_texts, closed=closed)
                return out if len(body) >= len(ids) - 1 else self._lossy(out, "ids follow the stop")
            return self._lossy(out, str(reason))
        return out

    def _ending(self, prompt_ids: Sequence[int]) -> int | None:
        """Whether a prompt's last control token opens (0) or closes (1) reasoning; ``None`` where it does neither."""
        control, pair = self._decoder.control, self._format.any_reasoning_ids
        last = next((token for token in reversed(prompt_ids) if token in control), None)
        return pair.index(last) if last is not None and last in pair else None

    def _has_special_token(self, content: str, atoms: Sequence[Atom]) -> bool:
        """Whether special tokens, sampled as tokens, stand in the content: half a call, a turn's header, ``<|fim_prefix|>``.

        Args:
            content: Of a completion.
            atoms: Its pieces, without its stop.
        """
        sampled = {text for atom in atoms if atom.control and (text := atom.text.strip()) and text in content}
        if not sampled:
            return False
        spelled = "\n".join(atom.text for atom in atoms if not atom.control)
        return any(content.count(text) > spelled.count(text) for text in sampled & self._special_tokens)

    def _rewritten(
        self, out: ParsedResponse, atoms: Sequence[Atom], ending: int | None, tools: Sequence[Any] | None
    ) -> ParsedResponse:
        """The calls that aren't what was sampled, or are part of a thought, lose their OK; ``ending`` as ``_ending`` says."""
        text = "".join(atom.text for atom in atoms)
        out = replace(out, tool_calls=located(text, out.tool_calls))
        spans = raw_spans(text, [call.raw for call in out.tool_calls])
        sound = [at for at, call in enumerate(out.tool_calls) if call.status is ToolCallStatus.OK and spans[at][0] >= 0]
        calls = list(out.tool_calls)
        faults: dict[int, str | None] = {
            at: "its raw text isn't in the completion" for at, call in enumerate(calls) if spans[at][0] < 0
        }
        if sound:
            faults.update(zip(sound, self._rewriter.faults([calls[at] for at in sound], atoms, tools), strict=True))
            faults.update((at, SPELLED) for at in sound if faults[at] is None and self._spelled(calls[at], spans[at], atoms))
            calls_end, pair = not self._format.closes_before_calls, self._format.reasoning_texts
            for thought in thoughts(atoms, pair, opened=ending == 0, closed=ending == 1, calls_end=calls_end):
                faults.update((at, DRAFT) for at in drafts_in(text, spans, thought) if at in sound)
        for at, fault in faults.items():
            if fault is not None and calls[at].status is ToolCallStatus.OK:
                calls[at] = changed(calls[at], status=ToolCallStatus.MALFORMED_STRUCTURE)
                out = self._lossy(replace(out, tool_calls=calls), f"call {at} ({calls[at].name}): {fault}")
        return out

    def _spelled(self, call: ToolCall, span: tuple[int, int], atoms: Sequence[Atom]) -> bool:
        """Whether ordinary ids of a call spell a control token that its name and arguments don't have: read as that token."""
        marks: set[str] = set()
        for atom in atoms:
            if not atom.control and atom.start < span[1] and (atom.start + len(atom.text)) > span[0]:
                marks.update(self._control_texts.findall(atom.text[max(0, span[0] - atom.start) : span[1] - atom.start]))
        if not marks:
            return False
        said = call.name + call["function"]["arguments"] + json.dumps(call.arguments, ensure_ascii=False)
        return any(mark not in said for mark in marks)

    def _lossy(self, out: ParsedResponse, reason: str, *, every: bool = False) -> ParsedResponse:
        calls = (
            [changed(call, status=ToolCallStatus.MALFORMED_STRUCTURE) for call in out.tool_calls] if every else out.tool_calls
        )
        broken = any(call.status is ToolCallStatus.MALFORMED_STRUCTURE for call in calls)
        termination = Termination.MALFORMED if broken and out.termination is Termination.STOP else out.termination
        loss = reason if out.loss is None else f"{out.loss}; {reason}"
        return replace(out, tool_calls=calls, termination=termination, lossless=False, loss=loss)

    @cached_property
    def _control_texts(self) -> re.Pattern[str]:
        """Finds the text of a control token."""
        texts = (self._decoder.text([token]).strip() for token in self._decoder.control)
        return re.compile(spelling(text for text in texts if len(text) > 2) or r"(?!)")

    @cached_property
    def _special_tokens(self) -> frozenset[str]:
        """Texts of the tokens that are never part of a message's text."""
        return self._format.special_tokens | {text.strip() for text in controlling_tokens(self._tokenizer)}

    @cached_property
    def _call_parts(self) -> frozenset[str]:
        """The words of a turn with a call, in the parts by which a completion is accounted for."""
        return frozenset(part for word in self._format.call_words for part in delimiter_parts(word))

    def _without_stop_strings(self, atoms: list[Atom]) -> list[Atom]:
        """Formats whose stop is a text: what ends with it, without it."""
        if self._format.stops:
            return atoms
        text = "".join(atom.text for atom in atoms)
        end = min((text.index(stop) for stop in self._stop_strings if stop in text), default=len(text))
        return [Atom(atom.text[: max(0, end - atom.start)], atom.control, atom.start) for atom in atoms if atom.start < end]

    def _delimiters_beside(self, out: ParsedResponse) -> frozenset[str]:
        """What the format writes beside the parts of a completion: no word that a call's own text has."""
        form = self._format
        if not out.tool_calls:  # one that is cut off may have ended in front of its first call
            words = form.text_words | self._delimiter_words
            return words | form.call_words if out.termination is Termination.TRUNCATED else words
        raws = [call.raw for call in out.tool_calls]
        beside = (part for part in self._call_parts if not (any(map(str.isalnum, part)) and any(part in raw for raw in raws)))
        return form.text_words.union(beside, self._delimiter_words)


def judged(call: ToolCall, tools: Sequence[Any] | None) -> ToolCall:
    """A call with the status that follows from its name and arguments alone, for every backend the same."""
    if call.status is not ToolCallStatus.OK:
        return call
    name = call["function"]["name"]
    declared = not tools or any(tool["function"]["name"] == name for tool in tools)
    if not name.strip() or any(letter.isspace() for letter in name):
        status = ToolCallStatus.MISSING_NAME if not name.strip() else ToolCallStatus.MALFORMED_STRUCTURE
    else:
        status = json_status(call["function"]["arguments"])
        if status is ToolCallStatus.OK and not declared:
            status = ToolCallStatus.UNKNOWN_TOOL
    return call if status is ToolCallStatus.OK else changed(call, status=status)


def changed(call: ToolCall, *, id: str | None = None, status: ToolCallStatus | None = None) -> ToolCall:
    return ToolCall(
        call.name,
        call["function"]["arguments"],
        id=id or call.id,
        raw=call.raw,
        status=call.status if status is None else status,
    )


_FIELDS: dict[str, Any] = {
    "content": str,
    "reasoning_content": (str, type(None)),
    "tool_calls": list,
    "termination": Termination,
    "reasoning_complete": bool,
    "lossless": bool,
    "loss": (str, type(None)),
}


def checked_parsed(parsed: Any, backend: str) -> ParsedResponse:
    """What a backend's parser returned, if it is a ``ParsedResponse`` whose fields have the types that it declares.

    Raises:
        ContractError: It isn't; the message names ``backend``.
    """
    who = f"backend {backend!r} returned"
    if not isinstance(parsed, ParsedResponse):
        raise ContractError(f"{who} {type(parsed).__name__} instead of ParsedResponse")
    for name, kinds in _FIELDS.items():
        if not isinstance(value := getattr(parsed, name), kinds):
            raise ContractError(f"{who} a ParsedResponse whose {name} is {type(value).__name__}")
    for at, call in enumerate(parsed.tool_calls):
        if not isinstance(call, ToolCall):
            raise ContractError(f"{who} tool_calls[{at}] as {type(call).__name__} instead of ToolCall")
        function = call.get("function")
        texts = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None,)
        if not all(isinstance(text, str) for text in (*texts, call.raw)) or not isinstance(call.status, ToolCallStatus):
            raise ContractError(f"{who} tool_calls[{at}] with a name, arguments, raw or status of another type")
        if call.status is ToolCallStatus.OK and not call["function"]["name"]:
            raise ContractError(f"{who} tool_calls[{at}] that is OK and has no name")
    return parsed
