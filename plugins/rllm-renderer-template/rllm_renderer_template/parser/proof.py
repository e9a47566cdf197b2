"""The proof of a format: probe turns of every kind, parsed back, behind several histories.

A completion is what a render shows behind its prompt. A format is right about it, flags it, or is wrong, which refutes the
format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rllm_renderer_core.types import Termination, ToolCallStatus

from .id_text import CONTROL
from .literals import atoms, core, until_stop
from .probes import KEYS, NAMES, TOOLS, Probes, result_of
from .turn_format import Turn, TurnFormat

RIGHT, RIGHT_CALLS, SAME_IDS, FLAGGED, WRONG = "right", "right, with calls", "same ids", "flagged", "wrong"
UNREACHABLE = "unreachable"
"""Verdicts. ``same ids``: another turn than the probe, which the template writes alike. ``unreachable``: no completion makes
the turn."""

_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_CLOSING = re.compile(r".?/|<\|?END_|<[^|<>]+\|>")  # </think>, [/THINK], <|END_THINKING|>, <channel|>
_NESTED = {"shelf": 3, "kind": "jar", "deep": {"a": [1, 2.5, {"b": None}], "größe": True}}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "a string": {KEYS[0]: "tea"},
    "no arguments": {},
    "three strings": {key: f"v {key}" for key in KEYS},
    "an integer": {"num": -17},
    "a float": {"ratio": 2.5},
    "booleans": {"flag": True},
    "false": {"flag": False},
    "null": {"none": None},
    "a list": {"items": ["x", "y z"]},
    "an object": {"where": _NESTED},
    "a string like a number": {KEYS[0]: "123"},
    "a string like a boolean": {KEYS[0]: "true", KEYS[1]: "null"},
    "a string like JSON": {KEYS[0]: '{"a": [1]}'},
    "quotes": {KEYS[0]: "say \"hi\" or 'ho'"},
    "lines": {KEYS[0]: "one\n\n  two\nthree"},
    "backslashes": {KEYS[0]: "c:\\new\\table"},
    "unicode": {KEYS[0]: "größer 日本 😀"},
    "tags": {KEYS[0]: "<b>x</b> & </c> {y} [z] (w), u=1"},
    "an empty string": {KEYS[0]: ""},
    "mixed": {KEYS[0]: "tea", "num": 4, "items": [], "where": {"a": "b"}},
}
_BESIDE_REASONING = ("a string", "no arguments", "lines", "mixed")
_REASONING = 'Weighing it.\n\nThen: <b>"so"</b> 日本.'
_TEXT = 'Plain text, größer.\n\n1. {"a": 1}\n```json\n{"name": "x"}\n```\nend'
_SEVERAL: list[tuple[str, Any]] = list(zip(NAMES, ({KEYS[0]: "a"}, {}, {"num": 5, KEYS[1]: "x\ny"}), strict=True))


@dataclass(frozen=True)
class AssistantTurn:
    """What an assistant says in a probe turn: ``calls`` are names and arguments."""

    label: str
    reasoning: str | None
    content: str
    calls: Sequence[tuple[str, Any]] = ()

    @property
    def comparable(self) -> tuple[str, str, str]:
        """Its parts in one form, white space at their edges left out."""
        calls = [(name, _mapping(arguments)) for name, arguments in self.calls]
        return (self.reasoning or "").strip(), self.content.strip(), json.dumps(calls, sort_keys=True)


class Proof:
    """Parses probe turns back with formats."""

    def __init__(self, probes: Probes) -> None:
        self.probes = probes

    def of(self, form: TurnFormat) -> dict[str, str]:
        """The verdict on every probe turn, by its label; the first that is wrong is the last."""
        seen: dict[str, str] = {}
        for said in self._turns(form):
            seen[said.label] = self.verdict(form, said)
            if seen[said.label] == WRONG:
                return seen
        return seen | self._behind_others(form)

    def _turns(self, form: TurnFormat, *, calls: bool = False) -> Iterator[AssistantTurn]:
        for reasoning in (None, _REASONING) if form.reasoning_close else (None,):
            beside = " with reasoning" if reasoning else ""
            yield AssistantTurn(f"text{beside}", reasoning, _TEXT)
            yield AssistantTurn(f"a word{beside}", reasoning, "ok")
            if form.calls is None and not calls:
                continue
            for label, arguments in ARGUMENTS.items():
                if not reasoning or label in _BESIDE_REASONING:
                    yield AssistantTurn(label + beside, reasoning, "", [(NAMES[0], arguments)])
            for count in (2, 3):
                yield AssistantTurn(f"{count} calls{beside}", reasoning, "", _SEVERAL[:count])
            yield AssistantTurn("content and a call" + beside, reasoning, "Let me see.\n\n- now", _SEVERAL[2:])
            yield AssistantTurn("content and two calls" + beside, reasoning, "Let me see.", _SEVERAL[:2])

    def _behind_others(self, form: TurnFormat) -> dict[str, str]:
        """The same behind other histories, whose prompts may open a turn in another way."""
        probes, seen = self.probes, dict[str, str]()
        call = (NAMES[0], ARGUMENTS["a string"])
        histories = {
            "a system message": [{"role": "system", "content": "Be brief."}, *probes.history],
            "a turn": [*probes.history, probes.message(None, "four"), {"role": "user", "content": "pong"}],
        }
        if form.calls is not None:
            called = probes.message(None, "", [call])
            histories["a result"] = [*probes.history, called, result_of(called, "five")]
        for behind, history in histories.items():
            with probes.behind(history) as accepted:
                for reasoning in (None, _REASONING) if form.reasoning_close and accepted else (None,) * accepted:
                    beside = " with reasoning" if reasoning else ""
                    turns = [AssistantTurn(f"text{beside} behind {behind}", reasoning, "Plain text.")]
                    if form.calls is not None:
                        turns.append(AssistantTurn(f"a call{beside} behind {behind}", reasoning, "", [call]))
                    seen |= {said.label: self.verdict(form, said) for said in turns}
        return seen

    def verdict(self, form: TurnFormat, said: AssistantTurn) -> str:
        """Renders one turn, parses its completion and compares."""
        text, opened, shown = self._sampled(form, said)
        return UNREACHABLE if text is None else self._verdict(form.parse(text, opened, TOOLS), said, shown)

    def completions(self, form: TurnFormat, *, read_back: bool) -> Iterator[tuple[str, AssistantTurn]]:
        """The probe turns that a completion behind the prompt makes: the completion, and the parts that it shows. Those that
        the format reads back, or all, with calls too where it has none."""
        for said in self._turns(form, calls=not read_back):
            text, opened, shown = self._sampled(form, said)
            if text is None or opened != form.opened_by(self.probes.prompt):
                continue
            if not read_back or self._verdict(form.parse(text, opened, TOOLS), shown, shown) in (RIGHT, RIGHT_CALLS):
                yield text, shown

    def _sampled(self, form: TurnFormat, said: AssistantTurn) -> tuple[str | None, bool, AssistantTurn]:
        """The completion of a turn up to its stop, whether reasoning is open before it, and what of the turn it shows."""
        text, opened = self._completion(form, said)
        body, rest = until_stop(text or "", form.stops)
        # No stop, or one in the middle of the turn (DeepSeek V3, three calls; R1, text behind calls).
        if text is None or not rest or (said.calls and (said.calls[-1][0] in rest or (said.content and said.content in rest))):
            return None, opened, said
        shows = said.reasoning is not None and said.reasoning in body  # history may drop it
        return body + rest[0], opened, said if shows else replace(said, reasoning=None)

    def _completion(self, form: TurnFormat, said: AssistantTurn) -> tuple[str | None, bool]:
        """What would be sampled behind the prompt to make this turn, and whether reasoning is open before it."""
        shown, reasoning = self.probes.shown(self._message(said)), said.reasoning
        if shown is None:
            return None, False
        opened, extra = form.opened_by(self.probes.prompt), core(self.probes.extra(shown))
        body = shown[self.probes.low(shown) :]
        opening, closing = core(form.reasoning_open), core(form.reasoning_close)
        if not extra and form.generation_prompt and body.startswith(_last_control(form.generation_prompt)):
            return None, False  # history opens another turn, and the prompt doesn't (Gemma, behind a result)
        if extra and body.lstrip().startswith(extra):  # the same, but for white space
            body, extra = body.lstrip()[len(extra) :], ""
        if extra and closing:  # the prompt opens, or opens and closes, reasoning that history doesn't show
            if "".join(extra.split()) not in ("".join(text.split()) for text in (opening, closing, opening + closing)):
                return None, False
            if closing in extra and reasoning and reasoning in body:  # behind a prompt that opens it and doesn't close it
                body, opened = body[body.index(reasoning) :], True
            elif opened and closing not in body:
                body = form.reasoning_close + body
        elif extra:
            if not closes(self.probes.ids.plain(extra)):
                return None, False  # it opens something, and history doesn't show what closes it
            # What the prompt's end and the turn's start have in common isn't sampled (DeepSeek V3.2: </think>).
            body = body[max((size for size in range(len(body) + 1) if extra.endswith(body[:size])), default=0) :]
        return (body if until_stop(body, form.stops)[1] else body.rstrip() + self.probes.end), opened

    def _verdict(self, turn: Turn, said: AssistantTurn, shown: AssistantTurn) -> str:
        if turn.termination is not Termination.STOP or any(call.status is not ToolCallStatus.OK for call in turn.calls):
            return FLAGGED
        read = AssistantTurn("", turn.reasoning, turn.content, [(call.name, _mapping(call.arguments)) for call in turn.calls])
        if read.comparable == shown.comparable:
            return RIGHT_CALLS if turn.calls else RIGHT
        again = self.probes.rendered([self._message(read)])
        return SAME_IDS if again is not None and again == self.probes.rendered([self._message(said)]) else WRONG

    def _message(self, said: AssistantTurn) -> dict[str, Any]:
        return self.probes.message(said.reasoning, said.content, said.calls)


def _last_control(text: str) -> str:
    """A text from its last control id on."""
    return text[text.rindex(CONTROL.findall(text)[-1]) :]


def closes(text: str) -> bool:
    """Whether a text closes what it opens, or what was opened before, such as reasoning: its last tag is a closing one."""
    tags = [atom for atom in atoms(text) if _TAG.fullmatch(atom)]
    return bool(tags) and text.endswith(tags[-1]) and _CLOSING.match(tags[-1]) is not None


def _mapping(arguments: Mapping[str, Any] | str) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments
