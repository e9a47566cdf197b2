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
from collections import Counter
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
from generated_turns import TOOLS, Template, drawn, verdict
from models_cells import Table, measured_with

from rllm_renderer_core import resolve
from rllm_renderer_core.errors import RendererError

BACKENDS = ("prime", "tinker", "fireworks", "minimax-m3", "tml", "chat-template")
TURNS = 100


def main() -> None:
    warnings.simplefilter("ignore")
    wanted = [] if sys.argv[1:2] == ["--rows"] else sys.argv[1:]  # scripts/write_models.py passes a file for its summary
    print(measured_with("renderers", "tinker-cookbook", "tml-renderers", "transformers"))
    table = Table(("model", "backend", "turns", "right", "flagged", "wrong"))
    for model, source in real_tokenizers.MODELS.items():
        if source.template is None or real_tokenizers.missing(model) or (wanted and not any(each in model for each in wanted)):
            continue
        tokenizer = real_tokenizers.load(model)
        template = Template(tokenizer)
        for backend in BACKENDS if template.shows_calls else ():
            try:
                renderer = resolve(model, tokenizer, backend=backend, parity="off")
            except RendererError:
                continue
            found = counted(renderer, template)
            right, wrong, turns = found["right"] + found["alike"], found["wrong"], found.total()
            said = f"{right} of {turns} turns" + (f", {wrong} wrong" if wrong else "")
            name, cells = renderer.name, (str(each) for each in (turns, right, found["flagged"], wrong))
            table.row(model, f"{backend}:{name}", *cells, model=model, backend=backend, renderer=name, parse=said)
    table.end()


def counted(renderer: Any, template: Template) -> Counter[str]:
    """The verdicts on the model's turns."""
    tokenizer, found = template.tokenizer, Counter[str]()
    stops = tokenizer.convert_ids_to_tokens(
        sorted(renderer.get_stop_token_ids(), key=lambda id_: id_ != tokenizer.eos_token_id)
    )
    for turn in drawn(renderer.resolution.model, TURNS):
        made = template.completion(turn, stops)
        if made is not None:
            prompt, body, shown = made
            parsed = renderer.parse_response(template.ids_of(body), tools=TOOLS, prompt_ids=template.ids_of(prompt))
            found[verdict(template, parsed, shown, turn)] += 1
    return found


if __name__ == "__main__":
    main()
