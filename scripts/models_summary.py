"""The table of docs/models.md: each model, what resolve takes where all plugins are installed, and how well.

    PYTHONPATH=COOKBOOK python scripts/models_summary.py [part of a model's name ...]

Prompts (all parity probes) and bridges (the nine turn shapes of tests/support/shapes.py, with tools declared) are measured
here, against the reference that is right for the model (scripts/models_references.py). What was measured of completions and
training sequences is read from the tables of docs/models-in-detail.md.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import models_references
import real_tokenizers
import shapes
from models_cells import DECLINED, DIFFERS, EQUAL, NOT_APPLICABLE, Compared, measured_with, reason_of, wanted
from rllm_renderer_template.parity.comparison import Budget, compare, renderer_ids
from rllm_renderer_template.parity.report import Outcome

from rllm_renderer_core import BridgeDeclined, resolve

DETAILS = ROOT / "docs" / "models-in-detail.md"
ON_PURPOSE = "differs on purpose"
PROMPTS = {
    Outcome.EQUAL: EQUAL,
    Outcome.DIFFERS: DIFFERS,
    Outcome.DECLARED: ON_PURPOSE,
    Outcome.RENDERER_REFUSES: DECLINED,
    Outcome.TEMPLATE_REFUSES: NOT_APPLICABLE,
    Outcome.NOT_TRIED: DIFFERS,
}
SAY = {
    DIFFERS: "{} **differ**",
    ON_PURPOSE: "{} differ on purpose",
    DECLINED: "{} declined",
    NOT_APPLICABLE: "the format refuses {}",
}


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("renderers", "tinker-cookbook", "tml-renderers", "transformers"))
    print("| model | served by | prompts (34) | bridges (9) | parse | SFT |")
    print("|---|---|---|---|---|---|")
    notes: dict[str, int] = {}
    for model in real_tokenizers.MODELS:
        if real_tokenizers.missing(model) or not wanted(model):
            continue
        renderer = resolve(model, real_tokenizers.load(model))
        reference = models_references.of(model)
        served = f"{renderer.backend}:{renderer.name}"
        about = [reference.why] if reference.why else []
        cells = [model + noted(about, notes), f"`{served}`" if renderer.backend != renderer.name else f"`{renderer.name}`"]
        for compared in (prompts_of(renderer, reference), bridges_of(renderer, reference)):
            cells.append(tally(list(compared), notes))
        print(f"| {' | '.join([*cells, parse_of(model, served), sft_of(model, served)])} |", flush=True)
    print()
    for text, number in notes.items():
        print(f"{number}. {text}.")


def prompts_of(renderer: Any, reference: models_references.Reference) -> Iterator[Compared]:
    """Each probe beside the reference's ids."""
    deviations = renderer.deviations()
    for one in compare(renderer_ids(renderer), reference.ids, renderer.tokenizer, deviations=deviations, budget=Budget(600)):
        yield Compared(one.probe, PROMPTS[one.outcome], one.reason if one.outcome is Outcome.DECLARED else "")


def bridges_of(renderer: Any, reference: models_references.Reference) -> Iterator[Compared]:
    """Each shape's bridge beside what the reference puts behind the turn."""
    deviations = renderer.deviations()
    for shape in shapes.SHAPES:
        turn = reference.turn(shape)
        if isinstance(turn, str):
            yield Compared(shape.name, NOT_APPLICABLE)
            continue
        prompt, sampled, behind = turn
        got = renderer.try_bridge(prompt, sampled, shape.new, tools=shapes.TOOLS, previous_message=shape.assistant)
        if isinstance(got, BridgeDeclined):
            yield Compared(shape.name, DECLINED, reason_of(got))
        else:
            why = deviations.get("calls", "") if "tool_calls" in shape.assistant else ""
            equal = got.token_ids == [*prompt, *sampled, *behind]
            yield Compared(shape.name, EQUAL) if equal else Compared(shape.name, ON_PURPOSE if why else DIFFERS, why)


def tally(compared: list[Compared], notes: dict[str, int]) -> str:
    """``all 34 equal``, or ``31 equal, 3 declined [1]`` with what isn't equal named in a footnote."""
    counts = Counter(one.outcome for one in compared)
    if counts[EQUAL] == len(compared):
        return f"all {len(compared)} equal"
    cells = [f"{counts[EQUAL]} equal"]
    for outcome, words in SAY.items():
        if of_it := [one for one in compared if one.outcome == outcome]:
            names, whys = "; ".join(one.what for one in of_it), "; ".join(sorted({one.why for one in of_it if one.why}))
            text = f"{words.format('').strip()}: {names}".replace("**", "") + (f" ({whys})" if whys else "")
            count = words.format(len(of_it)).replace("1 differ ", "1 differs ").replace("1 **differ**", "1 **differs**")
            cells.append(count + noted([text], notes))
    return ", ".join(cells).replace(", the format", "; the format")


def noted(texts: list[str], notes: dict[str, int]) -> str:
    return "".join(f" [{notes.setdefault(text, len(notes) + 1)}]" for text in texts)


def parse_of(model: str, served: str) -> str:
    """Generated turns that were read back, from the table of that name."""
    row = detail("models_table_turns", model, served)
    if row is None:
        return "not measured"
    turns, right, flagged, wrong = map(int, row)
    rest = [f"{flagged} flagged"] * bool(flagged) + [f"{wrong} **wrong**"] * bool(wrong)
    return f"all {turns}" if right == turns else ", ".join([f"{right} of {turns}", *rest])


def sft_of(model: str, served: str) -> str:
    """Assistant turns that stand in a training sequence exactly, from the table of that name."""
    row = detail("models_table_supervised", model, served)
    if row is None:
        return "not measured"
    reachable, exact, wrong, _ = map(int, row)
    return (f"all {reachable}" if exact == reachable else f"{exact} of {reachable}") + (f", {wrong} **wrong**" if wrong else "")


def detail(table: str, model: str, served: str) -> list[str] | None:
    """The cells of a row of docs/models-in-detail.md behind its model and renderer."""
    section = DETAILS.read_text(encoding="utf-8").split(f"<!-- {table} -->")[1].split("<!-- end -->")[0]
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| "))
    return next((row[2:] for row in rows if row[:2] == [model, served]), None)


if __name__ == "__main__":
    main()
