"""The summary of docs/models.md: each model, what resolve takes where all plugins are installed, and how well.

``python scripts/models_summary.py FILE...`` reads the rows that the table scripts write with ``--rows``. A row has a model and
any of ``prompts``, ``bridges``, ``parse`` and ``SFT``; with a backend it counts for that backend's models alone.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import json
import pathlib
import re
import sys
import warnings

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support")]

import real_tokenizers

from rllm_renderer_core import resolve

COLUMNS = ("prompts", "bridges", "parse", "SFT")


def main() -> None:
    warnings.simplefilter("ignore")
    rows = [row for file in sys.argv[1:] for row in json.loads(pathlib.Path(file).read_text(encoding="utf-8"))]
    print(f"| model | best backend | {' | '.join(COLUMNS)} |")
    print("|---|---|" + "---|" * len(COLUMNS))
    for model in real_tokenizers.MODELS:
        if real_tokenizers.missing(model):
            continue
        chosen = resolve(model, real_tokenizers.load(model)).resolution
        cells = [cell(rows, model, chosen.backend, chosen.renderer, column) for column in COLUMNS]
        print(f"| {model} | {chosen.backend}:{chosen.renderer} | {' | '.join(cells)} |", flush=True)


def cell(rows: list[dict[str, str]], model: str, backend: str, renderer: str, column: str) -> str:
    """What was measured of this model on this renderer, without the footnotes of its table."""
    for row in rows:
        mine = row["model"] == model and row.get("backend", backend) == backend and row.get("renderer", renderer) == renderer
        if mine and column in row:
            return re.sub(r" \[\d+\]", "", row[column])
    return "not measured"


if __name__ == "__main__":
    main()
