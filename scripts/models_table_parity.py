"""The table of detection for docs/models.md, as markdown: which renderer is found for each tokenizer under a hidden name.

Runs on the installed packages: ``python scripts/models_table_parity.py``. Every renderer of every installed backend is tried on
every tokenizer, so that the table also says which others are equal, and that no renderer of another model is.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections import Counter

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers

from rllm_renderer_core.discovery import load_backends
from rllm_renderer_core.metadata import installed_version
from rllm_renderer_core.parity.comparison import Budget
from rllm_renderer_core.parity.detection import Tried, nearest, refusal, try_all
from rllm_renderer_core.parity.report import Outcome
from rllm_renderer_core.plugin import Query

HIDDEN = "ckpt-step-40"
WORDS = {
    "agrees": "agree",
    "the renderer declines": "declined",
    "the reference has no such turn": "refused by the template",
    "the reference declines and refuses": "refused by the template",
}
HEADER = ("tokenizer", "found", "probes", "bridges", "equal too", "nearest, where nothing is found")


def main() -> None:
    warnings.simplefilter("ignore")
    names = ("renderers", "tinker-cookbook", "transformers")
    print(f"Measured with {', '.join(f'{name} {version}' for name in names if (version := installed_version(name)))}.")
    print()
    print(f"| {' | '.join(HEADER)} |")
    print("|" + "---|" * len(HEADER))
    registered = sorted(load_backends()[0], key=lambda each: (-each.backend.priority, each.plugin, each.order))
    for model, source in real_tokenizers.MODELS.items():
        if real_tokenizers.missing(model):
            continue
        if source.template is None:
            print(f"| {model} | - | - | - | - | the tokenizer has no chat template |")
            continue
        query = Query(HIDDEN, real_tokenizers.load(model, name_or_path=HIDDEN))
        why_not = refusal(query, Budget())
        tried = [] if why_not else [each for one in registered for each in try_all(one, query, Budget())]
        passed = [each for each in tried if each.passed]
        cells = found(passed) if passed else ["-", "-", "-", "-", (why_not or nearest(tried)).split(": ")[0]]
        print(f"| {' | '.join([model, *cells])} |".replace("\n", " "), flush=True)


def found(passed: list[Tried]) -> list[str]:
    """The winner's cells."""
    winner = passed[0]
    report = winner.report
    assert report is not None
    refused = report.having(Outcome.RENDERER_REFUSES)
    probes = f"{report.equal} of {report.accepted}" + (f", refuses {len(refused)}" if refused else "")
    counts = Counter(each.outcome.value for each in winner.bridges)
    bridges = ", ".join(f"{count} {WORDS.get(outcome, outcome)}" for outcome, count in counts.most_common())
    return [f"`{winner.name}`", probes, bridges, ", ".join(f"`{each.name}`" for each in passed[1:]) or "-", "-"]


if __name__ == "__main__":
    main()
