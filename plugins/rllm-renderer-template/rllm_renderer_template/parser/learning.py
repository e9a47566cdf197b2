"""From a renderer to a proven format: every hypothesis must read every probe turn back.

The parts of a probe turn are words that nothing else contains, so that what stands around them is the format. Qwen3's template,
asked for a turn with reasoning ``rzqxa``, content ``czqxb`` and one call, writes behind the generation prompt::

    <think>\\n rzqxa \\n</think>\\n\\n czqxb
    \\n<tool_call>\\n {"name": "fnzqa", "arguments": {"kzqa": "vzqa"}} \\n</tool_call> <|im_end|>

- ``reasoning_open`` is what stands before the first word, ``reasoning_close`` what stands between the first and the second;
- the call is one JSON text, with its name at ``("name",)`` and its arguments at ``("arguments",)``;
- before it stands ``<tool_call>\\n``, in turns without content too, and ``\\n</tool_call>`` behind it, up to the stop;
- two calls show what stands between them: ``\\n</tool_call>\\n<tool_call>\\n``.

The format then has to read back some 50 other turns, with values of every type, quotes, line breaks and several calls, behind
several histories. One that reads a turn as another is refuted; the first that nothing refutes is the parser.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .call_experiments import STYLES, CallExperiments
from .calls.attempt import Declined
from .id_text import IdText
from .probes import Form, Probes, Render
from .proof import FLAGGED, RIGHT, RIGHT_CALLS, SAME_IDS, UNREACHABLE, WRONG, Proof
from .text_experiments import TextExperiments
from .turn_format import TurnFormat


@dataclass(frozen=True)
class Learned:
    """A format, and what of it is proven; see ``LearnedParser``. Where not even text is, the format knows stops alone."""

    format: TurnFormat
    form: Form  # how the template takes an assistant's turn
    why_no_calls: str | None
    reasoning: str = "not shown"
    limits: tuple[str, ...] = ()
    proofs: int = 0
    why_no_text: str | None = None


def learn(render: Render, ids: IdText, stop_ids: Iterable[int]) -> Learned:
    """The format of a renderer's assistant turns."""
    try:
        with ids.remembering():
            return _learn(Probes(render, ids), stop_ids)
    except Declined as declined:
        return Learned(TurnFormat(ids.codes(stop_ids)), Form(), str(declined), why_no_text=str(declined))


def _learn(probes: Probes, stop_ids: Iterable[int]) -> Learned:
    stops = probes.ids.codes(stop_ids)
    text = TextExperiments(probes, stops)
    proof = Proof(probes)
    base = text.learn(lambda trial: _holds(proof.of(trial)))
    reasoning = "assumed" if text.assumed else "proven" if base.reasoning_close else "not shown"
    best: Learned | None = None
    whys: list[str] = []
    experiments = CallExperiments(probes, base)
    for style in STYLES:
        probes.use(ids_with_names=False)
        try:
            trial = experiments.learn(style)
        except Declined as declined:
            whys.append(str(declined))
            continue
        assert trial.calls is not None
        probes.use(ids_with_names=trial.calls.style.name_in_id)
        seen = proof.of(trial)
        refuted = _refuted(seen)
        if refuted:
            whys.append(f"{trial.calls.style.label}: {refuted}")
            continue
        learned = Learned(trial, probes.form, None, reasoning, _limits(seen), _held(seen))
        if not learned.limits:
            return learned
        best = learned if best is None or learned.proofs > best.proofs else best
    if best is not None:
        return best
    seen = proof.of(base)
    if not _holds(seen):
        if WRONG in seen.values():
            raise Declined("a turn of text doesn't read back")
        ending = probes.ids.plain(probes.prompt)[-24:]
        raise Declined(f"the prompt ends with {ending!r}, and history doesn't show how such a turn goes on")
    return Learned(base, probes.form, _most_telling(whys), reasoning, _limits(seen), _held(seen))


def _holds(seen: dict[str, str]) -> bool:
    """Whether nothing refutes it, and most of what a completion can make is read back."""
    verdicts = list(seen.values())
    return _held(seen) > verdicts.count(FLAGGED) and WRONG not in verdicts


def _held(seen: dict[str, str]) -> int:
    return sum(verdict in (RIGHT, RIGHT_CALLS, SAME_IDS) for verdict in seen.values())


def _refuted(seen: dict[str, str]) -> str | None:
    wrong = next((label for label, verdict in seen.items() if verdict == WRONG), None)
    if wrong is not None:
        return f"refuted by the probe of {wrong}"
    return None if RIGHT_CALLS in seen.values() else "no call of a probe reads back"


def _limits(seen: dict[str, str]) -> tuple[str, ...]:
    """What isn't proven: probes that are flagged, and reasoning that no completion shows."""
    odd = {FLAGGED: "", UNREACHABLE: "reasoning"}
    return tuple(f"{label}: {verdict}" for label, verdict in seen.items() if verdict in odd and odd[verdict] in label)


def _most_telling(whys: list[str]) -> str:
    """The reason of the hypothesis that came furthest."""
    return next((why for why in whys if "probe" in why), whys[-1])
