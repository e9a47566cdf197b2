"""The rows of docs/models.md for prime, minimax-m3 and the chat template, as markdown.

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
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
import shapes

from rllm_renderer_core import BridgeDeclined, resolve
from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.metadata import installed_version
from rllm_renderer_core.parity.comparison import parity
from rllm_renderer_core.parity.report import Outcome

BACKENDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("prime", {}),
    ("minimax-m3", {}),
    ("chat-template", {"template_bridge": True}),
)
HEADER = ["model", "backend", "renderer", "prompts", *[shape.name for shape in shapes.SHAPES]]


def main() -> None:
    warnings.simplefilter("ignore")
    versions = {name: installed_version(name) for name in ("renderers", "transformers")}
    print(f"Measured with {', '.join(f'{name} {version}' for name, version in versions.items() if version)}.")
    print()
    print(f"| {' | '.join(HEADER)} |")
    print("|" + "---|" * len(HEADER))
    for backend, options in BACKENDS:
        for model, source in real_tokenizers.MODELS.items():
            if source.template is None or real_tokenizers.missing(model):
                continue
            try:
                renderer = resolve(model, real_tokenizers.load(model), backend=backend, parity="off", **options)
            except RendererError:
                continue
            print(
                f"| {' | '.join([model, backend, renderer.name, prompts(renderer), *bridges(renderer, model)])} |", flush=True
            )


def prompts(renderer: Any) -> str:
    """Probes that are rendered to the template's ids, of those that the template accepts."""
    if renderer.backend == "chat-template":
        return "the template's own"
    results = [each for each in parity(renderer).results if each.outcome is not Outcome.TEMPLATE_REFUSES]
    equal = sum(each.outcome is Outcome.EQUAL for each in results)
    odd = [f"{each.probe}: {each.outcome.value}" for each in results if each.outcome is not Outcome.EQUAL]
    return f"{equal} of {len(results)}" + (f" ({'; '.join(odd)})" if odd else "")


def bridges(renderer: Any, model: str) -> list[str]:
    """For each shape: equal to the template's continuation, declined, or n/a where the template refuses the conversation."""
    tokenizer = real_tokenizers.load(model)
    text_of, close = shapes.template_text(tokenizer), shapes.closes(model)
    cells = []
    for shape in shapes.SHAPES:
        try:
            wanted = shapes.continuation(tokenizer, text_of, shape, close, shapes.TOOLS)
            prompt, sampled = shapes.sampled_turn(tokenizer, text_of, shape, close, shapes.TOOLS)
        except Exception:  # the template refuses this conversation, or doesn't show it
            cells.append("n/a")
            continue
        out = renderer.try_bridge(prompt, sampled, shape.new, tools=shapes.TOOLS, previous_message=shape.assistant)
        if isinstance(out, BridgeDeclined):
            cells.append("declined")
        else:
            cells.append("=" if out.token_ids == prompt + sampled + wanted else "differs")
    return cells


if __name__ == "__main__":
    main()
