"""How a format delimits an assistant's text and reasoning: found by rendering probe turns and looking around their words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from .calls.attempt import Declined
from .id_text import CONTROL
from .literals import atoms, common_end, common_start, core, first_of, trail, until_stop
from .probes import CONTENT, IDS, KEYS, NAMES, REASONING, USER, VALUES, Probes
from .proof import closes
from .turn_format import TurnFormat

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "parts", "inline")
"""Where templates take reasoning from, by ``Form``."""
_TAG = re.compile(r"<\W?\w+\W?>|\[\w+\]")
_USER_TURN = {"role": "user", "content": USER}


class TextExperiments:
    """Learns all of a format but its calls; ``stops`` are the characters of the ids at which sampling stops.

    Attributes:
        stops: With those that the history shows behind a turn.
        assumed: Whether the reasoning's close is the twin of what the prompt opens, and never shown.
    """

    def __init__(self, probes: Probes, stops: frozenset[str]) -> None:
        self.probes, self.stops, self.assumed = probes, stops, False

    def learn(self, proven: Callable[[TurnFormat], bool]) -> TurnFormat:
        """The format of text and reasoning; ``proven`` tells whether one reads the probe turns back.

        Raises:
            Declined: The template drops an assistant's text.
        """
        shown = self.probes.shown(self.probes.message(None, CONTENT))
        if shown is None or CONTENT not in shown[self.probes.low(shown) :]:
            raise Declined("an assistant's text is refused or dropped")
        at = shown.index(CONTENT, self.probes.low(shown))
        close, prompt = self._content_close(shown[at + len(CONTENT) :]), self._generation_prompt()
        plain = TurnFormat(self.stops, prompt, self._turn_opens(prompt), content_close=close)
        form = plain
        for key in REASONING_KEYS:
            self.probes.use(reasoning=key)
            trial = self._inline(plain) if key == "inline" else self._reasoning(plain)
            if trial is not None and proven(trial):
                form = trial
                break
        else:
            self.probes.use(reasoning=None)
            self.assumed = False
        extra = core(self.probes.ids.plain(self.probes.extra(shown)))
        if not extra or closes(extra):
            opening = shown[self.probes.low(shown) : at]
            if form.reasoning_close:
                opening = opening.rpartition(core(form.reasoning_close))[2]
            if core(opening):
                form = replace(form, content_opens=(*form.content_opens, opening))
        return form

    def _content_close(self, behind: str) -> str:
        """What stands between content and the stop; learns the stop where the tokenizer's own doesn't show."""
        close, rest = until_stop(behind, self.stops)
        if rest:
            return close
        followed = self.probes.shown(self.probes.message(None, CONTENT), _USER_TURN) or ""
        if CONTENT in followed and USER in followed:
            between = followed[followed.index(CONTENT) + len(CONTENT) : followed.index(USER)]
            if found := CONTROL.search(until_stop(between, self.stops)[1] or between):
                self.stops, self.probes.end = self.stops | {found[0]}, found[0]
                return between[: found.start()]
        if not self.stops:
            raise Declined("no control token closes a turn")
        self.probes.end = min(self.stops)
        return ""

    def _generation_prompt(self) -> str:
        """The start of what opens an assistant's turn, whatever was said before."""
        mine = self.probes.prompt
        with self.probes.behind([*self.probes.history[:-1], _USER_TURN]) as accepted:
            shared = common_end([mine, self.probes.prompt]) if accepted else ""
        found = CONTROL.search(shared)
        return "" if found is None else shared[found.start() :]

    def _turn_opens(self, prompt: str) -> str:
        """Of that, what a render without it doesn't end with, from its first control id on: a turn may come first, or
        behind one that is closed in another way."""
        history = self.probes.shown() or ""
        mine = self.probes.prompt[len(history) :] if self.probes.prompt.startswith(history) else ""
        found = CONTROL.search(mine if prompt.endswith(mine) else prompt)
        return prompt if found is None else found.string[found.start() :]

    def _reasoning(self, plain: TurnFormat) -> TurnFormat | None:
        """The format, if the current key shows reasoning before content and calls."""
        opening, behind_content = "", ""
        closings: list[str] = []
        calls_alone = None
        for arguments, content in (([], CONTENT), ([{KEYS[0]: VALUES[0]}], CONTENT), ([{KEYS[0]: VALUES[0]}], "")):
            shown = self.probes.turn(arguments, REASONING, content)
            word = content or VALUES[0]
            if shown is None or REASONING not in shown or word not in shown[shown.index(REASONING) :]:
                continue
            if "None" in shown[self.probes.low(shown) :] or "'type'" in shown[self.probes.low(shown) :]:
                continue  # a value printed as Python does: this isn't the form that the template expects
            start = shown.index(REASONING)
            end = shown.index(word, start)
            call = first_of((NAMES[0], IDS[0], KEYS[0]), shown, start, end)
            if call is not None and content:
                continue  # content behind the calls
            end = end if call is None else call
            if not closings:
                opening = self._reasoning_open(shown, self.probes.turn(arguments, None, content) or shown, start)
                behind_content = shown[start + len(REASONING) : end] if content else ""
            closing = shown[start + len(REASONING) : end]
            if call is not None and closings and not core(common_start([*closings, closing])):
                continue  # calls are part of what the reasoning's markers are around (Apertus)
            closings.append(closing)
            calls_alone = self.probes.turn(arguments) if call is not None else None
        close = common_start(closings) if closings else ""
        if closings and len(set(closings)) == 1 and calls_alone:
            # Turns of calls alone show it: then what opens the calls stands at the end of it.
            low = self.probes.low(calls_alone)
            at = first_of((NAMES[0], IDS[0], KEYS[0]), calls_alone, low)
            close = close[: len(close) - len(common_end([calls_alone[low:at], close]))]
        if not re.search(r"[^\w\s.,:;]", close):
            return None
        opens = plain.content_opens
        if core(behind_content[len(close) :]):
            opens = (*opens, behind_content[len(close) :])
        trial = replace(plain, reasoning_open=opening, reasoning_close=close, content_opens=opens)
        return self._without_reasoning_in_prompt(trial)

    def _reasoning_open(self, shown: str, plain: str, start: int) -> str:
        """What opens reasoning that starts at ``start``: what a turn without it doesn't show."""
        alike = next((at for at, (a, b) in enumerate(zip(shown, plain, strict=False)) if a != b), start)
        opening = shown[min(self.probes.low(shown), alike) : start]
        if core(opening):
            return opening
        extra = self.probes.extra(shown)
        if core(extra) and not closes(core(self.probes.ids.plain(extra))):
            return extra  # the prompt opens it, and history doesn't show that
        before = shown[:start].rstrip()  # both do: it is the prompt's last atom
        return atoms(before)[-1] + shown[len(before) : start]

    def _inline(self, plain: TurnFormat) -> TurnFormat | None:
        """The format, if no key shows reasoning, but the prompt opens a tag, and its twin ends reasoning in a message's text.

        That is so where the template cuts a message's text behind the twin. Where it doesn't, and both tags are single control
        ids, it is assumed: the model was trained on what the prompt opens.
        """
        probes = self.probes
        last = atoms(probes.prompt.rstrip())[-1]
        opening_tag = probes.ids.plain(last)
        if not _TAG.fullmatch(opening_tag):
            return None
        twin = opening_tag.replace("START", "END") if "START" in opening_tag else opening_tag[0] + "/" + opening_tag[1:]
        uncut = probes.shown({"role": "assistant", "content": CONTENT}, _USER_TURN)
        cuts = (
            space
            for space in ("\n\n", "")
            if uncut and probes.shown({"role": "assistant", "content": REASONING + twin + space + CONTENT}, _USER_TURN) == uncut
        )
        space = next(cuts, None)
        written = probes.ids.find(twin)
        if written is None:
            spelled = probes.shown({"role": "user", "content": REASONING + twin + CONTENT}) or ""
            if space is None or REASONING not in spelled or CONTENT not in spelled:
                return None
            written = spelled[spelled.index(REASONING) + len(REASONING) : spelled.rindex(CONTENT)]
        elif space is None and not CONTROL.fullmatch(last):
            return None
        self.assumed = space is None
        probes.use(inline=twin + (space or ""))
        opening, closing = last + trail(probes.prompt), "\n" + written + "\n\n"
        trial = replace(plain, reasoning_open=opening, reasoning_close=closing, prompt_opens=True)
        return self._without_reasoning_in_prompt(trial)

    def _without_reasoning_in_prompt(self, trial: TurnFormat) -> TurnFormat:
        prompt, opens = (text.partition(core(trial.reasoning_open))[0] for text in (trial.generation_prompt, trial.turn_opens))
        trial = replace(trial, generation_prompt=prompt, turn_opens=opens or prompt)
        return replace(trial, prompt_opens=trial.prompt_opens or trial.opened_by(self.probes.prompt))
