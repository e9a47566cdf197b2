"""The Fireworks rows of docs/models.md, as markdown: what renders each model, and what was compared with what.

Runs on the installed packages, with the real cookbook: ``python scripts/models_table_fireworks.py``. Rows of models whose
official tokenizer or template can't be had offline say so. Comparisons are those of tests/support/fireworks_oracle.py.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
sys.path[:0] = [str(folder) for folder in sorted((ROOT / "plugins").iterdir()) if folder.is_dir()]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import fireworks_oracle as oracle
import real_tokenizers
import shapes
from rllm_renderer_fireworks.backend import FireworksBackend
from rllm_renderer_fireworks.families import FAMILIES

from rllm_renderer_core.metadata import installed_version
from rllm_renderer_core.plugin import Coverage, Query

HEADER = ["model", "backend", "renderer", "bridge", "verified against", "prompts", *[shape.name for shape in shapes.SHAPES]]
SIGNS = {"equal": "=", "declined": "declined", "wrong": "WRONG", "refused by the format": "n/a"}
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
    names = ("tinker-cookbook", "transformers", "renderers")
    print(f"Measured with {', '.join(f'{name} {installed_version(name)}' for name in names if installed_version(name))}.")
    print()
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    for case in oracle.CASES:
        print("| " + " | ".join(row(case)) + " |", flush=True)
    compared = {case.renderer for case in oracle.DEFAULTS}
    for family in FAMILIES:
        if family.renderer in compared:
            continue
        model = next(model for model in UNPROVED if family.matches(model))
        coverage = FireworksBackend().covers(Query(model))
        assert isinstance(coverage, Coverage)
        cells = [model, "fireworks", f"`{coverage.renderer}`", "yes" if coverage.has_bridge else "no", UNPROVED[model]]
        print("| " + " | ".join([*cells, *[""] * (len(HEADER) - len(cells))]) + " |")


def row(case: oracle.Case) -> list[str]:
    """One line: the counts of equal prompts, and for each shape how its bridges compare, named, by id, with the calls."""
    variables = ", ".join(f"{name}={value}" for name, value in case.variables.items())
    against = f"{case.against}{f' ({variables})' if variables else ''}"
    cells = [case.model, "fireworks", f"`{case.renderer}`", "yes"]
    missing = real_tokenizers.missing(case.model)
    if missing:
        return [*cells, missing, *[""] * (len(HEADER) - 5)]
    counts, _ = oracle.compare_renders(case)
    prompts = f"{counts['equal']} of {counts['equal'] + counts['differs']}"
    bridges = oracle.compare_bridges(case)
    return [*cells, against, prompts, *[_shape([each for each in bridges if each.shape == s.name]) for s in shapes.SHAPES]]


def _shape(bridges: list[oracle.Bridge]) -> str:
    """``=`` where all are equal; else each way of handing results over that isn't."""
    outcomes = Counter(each.outcome for each in bridges)
    if len(outcomes) == 1:
        return SIGNS[bridges[0].outcome]
    odd = {each.results: SIGNS[each.outcome] for each in bridges if each.outcome != "equal"}
    return "= but " + ", ".join(f"{sign} {results}" for results, sign in odd.items())


if __name__ == "__main__":
    main()
