"""How a format writes calls: a style for one call, and the literals before, between and after the calls of a turn."""

from __future__ import annotations

from dataclasses import replace

from .calls.attempt import CallStyle, Declined, Sample
from .calls.headed import learn_headed_calls
from .calls.json_text import learn_json_calls
from .calls.section import CallSection
from .calls.tagged import learn_tagged_calls
from .id_text import CONTROL
from .literals import common_end, common_start, core, first_of, lead, until_stop
from .probes import CONTENT, IDS, KEYS, NAMES, REASONING, USER, VALUES, Probes, result_of
from .turn_format import TurnFormat

STYLES = ("json", "headed json", "headed quoted", "headed keywords", "headed plain keywords", "tagged", "headed python")
"""The hypotheses, the narrowest first; last a mapping that a template prints as Python does."""
BARE_MARKS = ("<|python_tag|>",)
"""What models write before a bare JSON call, though their template doesn't (Llama 3)."""


class CallExperiments:
    """Adds calls to a format, one hypothesis at a time."""

    def __init__(self, probes: Probes, base: TurnFormat) -> None:
        self.probes, self.base = probes, base

    def learn(self, style: str) -> TurnFormat:
        """The format with calls in this style.

        Raises:
            Declined: The calls aren't written so.
        """
        sample = self._sample()
        learned = self._style(sample, style)
        stops = self.base.stops
        after, rest = until_stop(sample.one[learned.end :], stops)
        between = None
        if sample.two and not learned.covers(sample.two, learned.start, VALUES[1]):
            between, after, rest = self._between(sample, sample.two, learned, after, rest)
        if rest:
            stops |= {rest[0]}
        else:
            after, stops = self._stop(sample, learned, between, after)
        before, gap = self._before(sample, learned)
        delimiters = (*self.base.delimiters, *stops)
        marks = "" if core(before) else "".join(filter(None, map(self.probes.ids.find, BARE_MARKS)))
        return replace(self.base, stops=stops, gap=gap, calls=CallSection(learned, before, between, after, delimiters, marks))

    def _sample(self) -> Sample:
        probes = self.probes
        one = probes.turn([{KEYS[0]: VALUES[0]}])
        if one is None:
            raise Declined(f"calls are refused: {probes.refusal}")
        low = probes.low(one)
        if VALUES[0] not in one[low:]:
            raise Declined("calls are dropped")
        if "None" in one[low:]:
            raise Declined("'None' is printed beside calls")
        two = probes.turn([{KEYS[0]: VALUES[0]}, {KEYS[1]: VALUES[1]}])
        two = two if two and VALUES[1] in two[low:] else None
        two_low = two.index(VALUES[0], low) + len(VALUES[0]) if two and VALUES[0] in two[low:] else 0
        sample = Sample(one, low, two if two_low else None, two_low)
        if first_of((NAMES[0], IDS[0]), one, low) is None:
            raise Declined("a call shows neither its name nor its id")
        return sample

    def _style(self, sample: Sample, style: str) -> CallStyle:
        if style == "json":
            return learn_json_calls(sample)
        if style == "tagged":
            return learn_tagged_calls(sample, lambda arguments: self.probes.turn([arguments]), self.base.stops)
        return learn_headed_calls(sample, style.removeprefix("headed "))

    def _between(self, sample: Sample, two: str, style: CallStyle, after: str, rest: str) -> tuple[str, str, str]:
        """What stands between two calls and behind the last; and the stop with what follows."""
        if two[: style.end] != sample.one[: style.end]:
            raise Declined("how a call is written depends on those behind it")
        start, end = style.span_of_next(two, style.end, sample)
        behind, more = until_stop(two[end:], self.base.stops)
        if behind.rstrip() != after.rstrip():
            # DeepSeek V3: one call isn't closed, several are.
            if not more and CONTROL.match(behind[-1:]):
                behind, more = behind[:-1], behind[-1]
            if rest or not more or not behind.startswith(after.rstrip()):
                raise Declined("what closes the calls depends on how many there are")
            after, rest = behind, more
        return two[style.end : start], after, rest

    def _stop(self, sample: Sample, style: CallStyle, between: str | None, after: str) -> tuple[str, frozenset[str]]:
        """Where no stop shows: what the next generation prompt starts with, where one is always shown; the control id that ends
        the calls (harmony's ``<|call|>``); or the one behind which results follow."""
        prompt = self.base.generation_prompt
        if prompt and prompt in after:
            return after[: after.index(prompt)], self.base.stops | {prompt[0]}
        close = common_start([between, after]) if between is not None else after
        rest = (after[len(close) :] if between is not None else after).rstrip()
        ending = CONTROL.findall(rest)[-1:]
        if ending and rest.endswith(ending[0]) and ending[0] not in (between or ""):
            return after[: after.rindex(ending[0])], self.base.stops | {ending[0]}
        call = self.probes.message(None, "", [(NAMES[0], {KEYS[0]: VALUES[0]})])
        followed = self.probes.shown(call, result_of(call, USER)) or ""
        if followed[: style.end] == sample.one[: style.end]:
            found = CONTROL.match(followed[style.end + len(after.rstrip()) :].lstrip())
            if found is not None:
                return after, self.base.stops | {found[0]}
        return after, self.base.stops

    def _before(self, sample: Sample, style: CallStyle) -> tuple[str, str]:
        """What opens calls, as alone, so behind content and behind reasoning; and what stands between content and it."""
        call, gap = sample.one[style.start : style.end], ""
        openings = [sample.one[sample.low : style.start]]
        for reasoning, content in ((None, CONTENT), (REASONING, ""), (REASONING, CONTENT)):
            shown, word = self.probes.turn([{KEYS[0]: VALUES[0]}], reasoning, content), content or REASONING
            if not shown or call not in shown:
                continue
            at = shown.find(word, self.probes.low(shown))
            if 0 <= at < shown.index(call):
                openings.append(shown[at + len(word) : shown.index(call)])
                gap = openings[-1] if content else gap
        before = common_end(openings)
        for delimiter in filter(None, map(core, (self.base.reasoning_close, *self.base.content_opens))):
            before = before.rpartition(delimiter)[2]
        return before, gap[: len(gap) - len(before)] + lead(before) if gap.endswith(before) else ""
