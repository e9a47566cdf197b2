"""The Fireworks rows of docs/models-in-detail.md, as markdown: what renders each model, and what was compared with what.

Runs on the installed packages, with the real cookbook: ``python scripts/models_table_fireworks.py``. Rows of models whose
official tokenizer or template can't be had offline say so. Comparisons are those of tests/support/fireworks_oracle.py.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "support")]
sys.path[:0] = [str(folder) for folder in sorted((ROOT / "plugins").iterdir()) if folder.is_dir()]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import fireworks_oracle as oracle
import real_tokenizers
from models_cells import DECLINED, DIFFERS, EQUAL, NOT_APPLICABLE, Compared, Table, measured_with
from rllm_renderer_fireworks.backend import FireworksBackend
from rllm_renderer_fireworks.families import FAMILIES

from rllm_renderer_core.plugin import Coverage, Query

HEADER = ("model", "renderer", "compared with", "prompts", "bridges")
WORDS = {"equal": EQUAL, "declined": DECLINED, "wrong": DIFFERS, "refused by the format": NOT_APPLICABLE}
UNPROVED = {
    "google/gemma-4-31B-it": "nothing: its template is in no package; E2B's with an empty thought behind the opener",
    "moonshotai/Kimi-K2.5": "nothing: its template is in no package; K2.6's renderer is the same class",
    "moonshotai/Kimi-K2.7-Code": "its own template is in no package; see kimi_k27_code on K2.6 above",
    "moonshotai/Kimi-K3": "nothing: it renders with code of the model's own tokenizer class",
    "meta-models/Muse-Glimmer-30B": "nothing: its vocabulary is in no package",
    "Qwen/Qwen2.5-32B-Instruct": "nothing: Fireworks serves it with a template of its own",
}
"""One model of each row that nothing is compared on, with why."""


def main() -> None:
    why = oracle.missing()
    if why is not None:
        sys.exit(why)
    warnings.simplefilter("ignore")
    print(measured_with("tinker-cookbook", "transformers"))
    table = Table(HEADER)
    for case in oracle.CASES:
        row(case, table)
    compared = {case.renderer for case in oracle.DEFAULTS}
    for family in FAMILIES:
        if family.renderer in compared:
            continue
        model = next(model for model in UNPROVED if family.matches(model))
        coverage = FireworksBackend().covers(Query(model))
        assert isinstance(coverage, Coverage)
        bridge = "not measured" if coverage.has_bridge else "no bridge"
        table.row(model, f"`{coverage.renderer}`", UNPROVED[model], "not measured", bridge)
    table.end()


def row(case: oracle.Case, table: Table) -> None:
    """One line: the counts of equal prompts, and of bridges: with results that are named, by id, and with the calls."""
    variables = ", ".join(f"{name}={value}" for name, value in case.variables.items())
    against = f"{case.against}{f' ({variables})' if variables else ''}"
    missing = real_tokenizers.missing(case.model)
    if missing:
        table.row(case.model, f"`{case.renderer}`", missing, "not measured", "not measured")
        return
    counts, odd = oracle.compare_renders(case)
    refused = [Compared("a message that the reference leaves out is refused", DECLINED)] * counts["refused, with the message"]
    prompts = table.tally([*[Compared("", EQUAL)] * counts["equal"], *[Compared(each, DIFFERS) for each in odd], *refused])
    bridges = table.tally(
        Compared(each.shape + (" by id" if each.results == "by id" else ""), WORDS[each.outcome])
        for each in oracle.compare_bridges(case)
    )
    table.row(case.model, f"`{case.renderer}`", against, prompts, bridges)


if __name__ == "__main__":
    main()
