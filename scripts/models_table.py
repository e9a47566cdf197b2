"""The rows of docs/models-in-detail.md for prime, minimax-m3 and the chat template, as markdown.

Runs on the installed packages: ``python scripts/models_table.py``. Each bridge is compared with the official template's own
continuation (tests/support/shapes.py), each prompt with the template's ids. The tables of tinker and fireworks, whose
references aren't all templates, come from scripts/models_table_tinker.py and scripts/models_table_fireworks.py.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
import shapes
from models_cells import DECLINED, DIFFERS, EQUAL, NOT_APPLICABLE, Compared, Table, measured_with
from rllm_renderer_template.parity.comparison import parity
from rllm_renderer_template.parity.report import Outcome

from rllm_renderer_core import BridgeDeclined, resolve
from rllm_renderer_core.errors import RendererError

BACKENDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("prime", {}),
    ("minimax-m3", {}),
    ("chat-template", {}),
)
HEADER = ("model", "backend", "renderer", "prompts", "bridges")


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("renderers", "transformers"))
    table = Table(HEADER)
    for backend, options in BACKENDS:
        for model, source in real_tokenizers.MODELS.items():
            if source.template is None or real_tokenizers.missing(model):
                continue
            try:
                renderer = resolve(model, real_tokenizers.load(model), backend=backend, parity="off", **options)
            except RendererError:
                continue
            prompts, bridges = prompts_of(renderer, table), table.tally(bridges_of(renderer, model))
            table.row(model, backend, renderer.name, prompts, bridges)
    table.end()


def prompts_of(renderer: Any, table: Table) -> str:
    """Probes that are rendered to the template's ids, of those that the template accepts."""
    if renderer.backend == "chat-template":
        return "the template's own"
    return table.tally(
        Compared(each.probe, *PROBES_SAY[each.outcome])
        for each in parity(renderer).results
        if each.outcome is not Outcome.TEMPLATE_REFUSES
    )


PROBES_SAY = {
    Outcome.EQUAL: (EQUAL,),
    Outcome.DIFFERS: (DIFFERS,),
    Outcome.DECLARED: (DIFFERS, "on purpose, as declared"),
    Outcome.RENDERER_REFUSES: (DECLINED, "the renderer raises"),
    Outcome.NOT_TRIED: (NOT_APPLICABLE, "not tried"),
}


def bridges_of(renderer: Any, model: str) -> Iterator[Compared]:
    """Each shape's bridge beside the template's continuation; not applicable where the template refuses the conversation."""
    tokenizer = real_tokenizers.load(model)
    text_of, close = shapes.template_text(tokenizer), shapes.closes(model)
    for shape in shapes.SHAPES:
        try:
            wanted = shapes.continuation(tokenizer, text_of, shape, close, shapes.TOOLS)
            prompt, sampled = shapes.sampled_turn(tokenizer, text_of, shape, close, shapes.TOOLS)
        except Exception:  # the template refuses this conversation, or doesn't show it
            yield Compared(shape.name, NOT_APPLICABLE, "the template refuses the conversation")
            continue
        out = renderer.try_bridge(prompt, sampled, shape.new, tools=shapes.TOOLS, previous_message=shape.assistant)
        if isinstance(out, BridgeDeclined):
            yield Compared(shape.name, DECLINED)
        else:
            yield Compared(shape.name, EQUAL if out.token_ids == prompt + sampled + wanted else DIFFERS)


if __name__ == "__main__":
    main()
