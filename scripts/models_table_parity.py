"""The table of detection for docs/models-in-detail.md: which renderer is found for each tokenizer under a hidden name.

Runs on the installed packages: ``python scripts/models_table_parity.py``. Every renderer of every installed backend is tried on
every tokenizer, so that the table also says which others are equal, and that no renderer of another model is.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
from models_cells import DECLINED, DIFFERS, EQUAL, NOT_APPLICABLE, Compared, Table, measured_with
from rllm_renderer_template.parity.bridges import BridgeOutcome
from rllm_renderer_template.parity.comparison import Budget
from rllm_renderer_template.parity.detection import Tried, nearest, refusal, try_all
from rllm_renderer_template.parity.report import Outcome

from rllm_renderer_core.plugin import Query
from rllm_renderer_core.plugin.discovery import load_backends

HIDDEN = "ckpt-step-40"
WORDS = {
    BridgeOutcome.AGREES: (EQUAL,),
    BridgeOutcome.DIFFERS: (DIFFERS,),
    BridgeOutcome.DECLINED: (DECLINED,),
    BridgeOutcome.REFUSED: (NOT_APPLICABLE, "the template refuses the conversation"),
    BridgeOutcome.UNPROVEN: (NOT_APPLICABLE, "the template refuses the conversation"),
    BridgeOutcome.NOT_TRIED: (NOT_APPLICABLE, "not tried"),
}
HEADER = ("tokenizer", "found", "prompts", "bridges", "equal too", "nearest, where nothing is found")


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("renderers", "tinker-cookbook", "transformers"))
    table = Table(HEADER)
    registered = load_backends().registered
    for model, source in real_tokenizers.MODELS.items():
        if real_tokenizers.missing(model):
            continue
        if source.template is None:
            table.row(model, "-", "-", "-", "-", "the tokenizer has no chat template")
            continue
        query = Query(HIDDEN, real_tokenizers.load(model, name_or_path=HIDDEN))
        why_not = refusal(query, Budget())
        tried = [] if why_not else [each for one in registered for each in try_all(one, query, Budget())]
        passed = [each for each in tried if each.passed]
        cells = found(passed, table) if passed else ["-", "-", "-", "-", (why_not or nearest(tried)).split(": ")[0]]
        table.row(model, *cells)
    table.end()


def found(passed: list[Tried], table: Table) -> list[str]:
    """The winner's cells."""
    winner = passed[0]
    report = winner.report
    assert report is not None
    refused = [Compared(str(each.probe), DECLINED, "the renderer raises") for each in report.having(Outcome.RENDERER_REFUSES)]
    prompts = table.tally([*[Compared("", EQUAL)] * report.equal, *refused])
    bridges = table.tally(Compared(each.shape, *WORDS[each.outcome]) for each in winner.bridges)
    return [f"`{winner.name}`", prompts, bridges, ", ".join(f"`{each.name}`" for each in passed[1:]) or "-", "-"]


if __name__ == "__main__":
    main()
