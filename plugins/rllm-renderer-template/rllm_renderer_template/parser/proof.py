"""The proof of a format: probe turns of every kind, parsed back, behind several histories.

A completion is what a render shows behind its prompt. A format is right about it, flags it, or is wrong, which refutes the
format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.types import Termination, ToolCallStatus

from .id_text import CONTROL
from .literals import atoms, core, until_stop
from .probes import KEYS, NAMES, TOOLS, Probes
from .turn_format import Turn, TurnFormat

RIGHT, SAME_IDS, FLAGGED, WRONG, UNREACHABLE = "right", "same ids", "flagged", "wrong", "unreachable"
"""Outcomes. ``same ids``: another turn than the probe, which the template writes alike. ``unreachable``: no completion makes
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
class Outcome:
    """What became of one probe turn; ``calls`` and ``reasoning`` say whether it was read back with such."""

    verdict: str
    calls: bool = False
    reasoning: bool = False


class Proof:
    """Parses probe turns back with formats.

    Args:
        probes: Renders them.
        end: Called for the stop that a render without one ends with.
    """

    def __init__(self, probes: Probes, end: Callable[[], str]) -> None:
        self.probes, self._end = probes, end

    def of(self, form: TurnFormat) -> dict[str, Outcome]:
        """The outcome of every probe turn, by its label."""
        seen: dict[str, Outcome] = {}
        for label, reasoning, content, calls in self._turns(form):
            seen[label] = self.outcome(form, reasoning, content, calls)
            if seen[label].verdict == WRONG:
                return seen
        return seen | self._behind_others(form)

    def _turns(self, form: TurnFormat, *, calls: bool = False) -> Iterator[tuple[str, str | None, str, list[tuple[str, Any]]]]:
        for reasoning in (None, _REASONING) if form.reasoning_close else (None,):
            beside = " with reasoning" if reasoning else ""
            yield f"text{beside}", reasoning, _TEXT, []
            yield f"a word{beside}", reasoning, "ok", []
            if form.calls is None and not calls:
                continue
            for label, arguments in ARGUMENTS.items():
                if not reasoning or label in _BESIDE_REASONING:
                    yield label + beside, reasoning, "", [(NAMES[0], arguments)]
            for count in (2, 3):
                yield f"{count} calls{beside}", reasoning, "", _SEVERAL[:count]
            yield "content and a call" + beside, reasoning, "Let me see.\n\n- now", _SEVERAL[2:]
            yield "content and two calls" + beside, reasoning, "Let me see.", _SEVERAL[:2]

    def _behind_others(self, form: TurnFormat) -> dict[str, Outcome]:
        """The same behind other histories, whose prompts may open a turn in another way."""
        probes, seen = self.probes, {}
        call = (NAMES[0], ARGUMENTS["a string"])
        histories = {
            "a system message": [{"role": "system", "content": "Be brief."}, *probes.history],
            "a turn": [*probes.history, probes.message(None, "four"), {"role": "user", "content": "pong"}],
        }
        if form.calls is not None:
            called = probes.message(None, "", [call])
            ident = called["tool_calls"][0]["id"]
            result = {"role": "tool", "content": "five", "name": NAMES[0], "tool_call_id": ident}
            histories["a result"] = [*probes.history, called, result]
        for label, history in histories.items():
            with probes.behind(history) as accepted:
                for reasoning in (None, _REASONING) if form.reasoning_close and accepted else (None,) * accepted:
                    beside = " with reasoning" if reasoning else ""
                    seen[f"text{beside} behind {label}"] = self.outcome(form, reasoning, "Plain text.", [])
                    if form.calls is not None:
                        seen[f"a call{beside} behind {label}"] = self.outcome(form, reasoning, "", [call])
        return seen

    def outcome(self, form: TurnFormat, reasoning: str | None, content: str, calls: list[tuple[str, Any]]) -> Outcome:
        message = self.probes.message(reasoning, content, calls)
        text, opened, shows = self._sampled(form, message, reasoning, content, calls)
        if text is None:
            return Outcome(UNREACHABLE)
        turn = form.parse(text, opened, TOOLS)
        return Outcome(self._verdict(turn, message, shows, content, calls), bool(turn.calls), bool(turn.reasoning))

    def completions(
        self, form: TurnFormat, *, calls: bool = False
    ) -> Iterator[tuple[str, str, str | None, str, list[tuple[str, Any]]]]:
        """The probe turns that a completion behind the prompt makes: label, completion, and the parts that it shows.

        Args:
            form: The format that tells prompt and completion apart.
            calls: Turns with calls too where the format has none.
        """
        for label, reasoning, content, called in self._turns(form, calls=calls):
            message = self.probes.message(reasoning, content, called)
            text, opened, shows = self._sampled(form, message, reasoning, content, called)
            if text is not None and opened == form.opened_by(self.probes.prompt):
                yield label, text, shows, content, called

    def reads_back(
        self, form: TurnFormat, text: str, reasoning: str | None, content: str, calls: list[tuple[str, Any]]
    ) -> bool:
        """Whether a format reads one of these completions as what it is."""
        turn = form.parse(text, form.opened_by(self.probes.prompt), TOOLS)
        return self._verdict(turn, self.probes.message(reasoning, content, calls), reasoning, content, calls) == RIGHT

    def _sampled(
        self,
        form: TurnFormat,
        message: dict[str, Any],
        reasoning: str | None,
        content: str,
        calls: list[tuple[str, Any]],
    ) -> tuple[str | None, bool, str | None]:
        """The completion of a turn up to its stop, whether reasoning is open before it, and what of the reasoning it shows."""
        text, opened = self._completion(form, message, reasoning)
        body, rest = until_stop(text or "", form.stops)
        # No stop, or one in the middle of the turn (DeepSeek V3, three calls; R1, text behind calls).
        if text is None or not rest or (calls and (calls[-1][0] in rest or (content and content in rest))):
            return None, opened, None
        return body + rest[0], opened, reasoning if reasoning and reasoning in body else None  # history may drop it

    def _completion(self, form: TurnFormat, message: dict[str, Any], reasoning: str | None) -> tuple[str | None, bool]:
        """What would be sampled behind the prompt to make this turn, and whether reasoning is open before it."""
        shown = self.probes.shown(message)
        if shown is None:
            return None, False
        opened, extra = form.opened_by(self.probes.prompt), core(self.probes.extra(shown))
        body = shown[self.probes.low(shown) :]
        opening, closing = core(form.reasoning_open), core(form.reasoning_close)
        if not extra and form.opener and body.startswith(form.opener[form.opener.rindex(CONTROL.findall(form.opener)[-1]) :]):
            return None, False  # history opens another turn, and the prompt doesn't (Gemma, behind a result)
        if extra and body.lstrip().startswith(extra):  # the same, but for white space
            body, extra = body.lstrip()[len(extra) :], ""
        if extra and closing:  # the prompt opens, or opens and closes, reasoning that history doesn't show
            if "".join(extra.split()) not in ("".join(each.split()) for each in (opening, closing, opening + closing)):
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
        return (body if until_stop(body, form.stops)[1] else body.rstrip() + self._end()), opened

    def _verdict(
        self, turn: Turn, message: dict[str, Any], reasoning: str | None, content: str, calls: list[tuple[str, Any]]
    ) -> str:
        if turn.termination is not Termination.STOP or any(each.status is not ToolCallStatus.OK for each in turn.calls):
            return FLAGGED
        read = [(each.name, _mapping(each.arguments)) for each in turn.calls]
        wanted = ((reasoning or "").strip(), content.strip(), [(name, _canonical(value)) for name, value in calls])
        if wanted == (
            (turn.reasoning or "").strip(),
            turn.content.strip(),
            [(name, _canonical(value)) for name, value in read],
        ):
            return RIGHT
        again = self.probes.rendered([self.probes.message(turn.reasoning, turn.content, read)])
        return SAME_IDS if again is not None and again == self.probes.rendered([message]) else WRONG


def closes(text: str) -> bool:
    """Whether a text closes what it opens, or what was opened before, such as reasoning: its last tag is a closing one."""
    tags = [atom for atom in atoms(text) if _TAG.fullmatch(atom)]
    return bool(tags) and text.endswith(tags[-1]) and _CLOSING.match(tags[-1]) is not None


def _mapping(arguments: Mapping[str, Any] | str) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
