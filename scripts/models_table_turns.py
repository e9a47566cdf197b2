"""Prints, as markdown, how many generated assistant turns each backend reads back, model by model.

    PYTHONPATH=COOKBOOK python scripts/models_table_turns.py [part of a model's name ...]

A turn is drawn by a seed (tests/support/generated_turns.py): reasoning, content and up to three calls with nested arguments,
unicode and texts that look like other values. The model's chat template writes it, and the backend parses the ids behind the
prompt. Right is the turn itself, or one that the template writes in the same way; flagged is a completion that isn't lossless,
or a call that isn't OK, with its text; wrong is all else.
"""

# ruff: noqa: T201
from __future__ import annotations

import os
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
from generated_turns import Template, drawn, verdicts
from models_cells import Table, measured_with, wanted

from rllm_renderer_core import resolve
from rllm_renderer_core.errors import RendererError

BACKENDS = ("prime", "tinker", "fireworks", "minimax-m3", "tml", "chat-template")
TURNS = 100


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("renderers", "tinker-cookbook", "tml-renderers", "transformers"))
    table = Table(("model", "backend", "turns", "right", "flagged", "wrong"))
    for model, source in real_tokenizers.MODELS.items():
        if source.template is None or real_tokenizers.missing(model) or not wanted(model):
            continue
        tokenizer = real_tokenizers.load(model)
        template = Template(tokenizer)
        for backend in BACKENDS if template.shows_calls else ():
            try:
                renderer = resolve(model, tokenizer, backend=backend, parity="off")
            except RendererError:
                continue
            found = verdicts(template, renderer, drawn(model, TURNS), renderer.get_stop_token_ids())
            right, wrong, turns = found["right"] + found["alike"], found["wrong"], found.total()
            cells = (str(count) for count in (turns, right, found["flagged"], wrong))
            table.row(model, f"{backend}:{renderer.name}", *cells)
    table.end()


if __name__ == "__main__":
    main()
