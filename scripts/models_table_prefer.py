"""The table of ``parity="prefer"`` for docs/models-in-detail.md: which models get another renderer than by their name.

Runs on the installed packages: ``python scripts/models_table_prefer.py``. Each model is resolved on its own tokenizer by name
alone (``parity="off"``) and as by default, with all plugins, and with fewer of them, as a winner's differences don't show where
another plugin is asked first.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections.abc import Iterator

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
from models_cells import Table, measured_with
from rllm_renderer_template.chat_template.template import TEMPLATE_BACKEND
from rllm_renderer_template.parity.comparison import parity

from rllm_renderer_core import NoBackendError, resolve
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

INSTALLED = {
    "all plugins": "",
    "without prime": "prime",
    "without prime, tml, fireworks": "prime,tml,fireworks",
}
"""What is installed, and what of it ``RLLM_RENDERER_DISABLED`` takes away for that."""

HEADER = ("installed", "model", "by its name", "that is", 'under `parity="prefer"`', "that is")


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("renderers", "tinker-cookbook", "tml-renderers", "transformers"))
    table = Table(HEADER)
    stays: dict[str, list[str]] = {each: [] for each in INSTALLED}
    for model, source in real_tokenizers.MODELS.items():
        if real_tokenizers.missing(model) or source.template is None:
            continue
        tokenizer = real_tokenizers.load(model)
        for installed, disabled in INSTALLED.items():
            os.environ["RLLM_RENDERER_DISABLED"] = disabled
            for named, taken in _both(model, tokenizer):
                if _name(named) == _name(taken):
                    stays[installed].append(f"{model} ({_name(named)})")
                else:
                    table.row(installed, model, _name(named), _equal(named), _name(taken), _equal(taken))
    table.end()
    for installed, models in stays.items():
        print(f"\nUnchanged, {installed}: {', '.join(models) or 'none'}.")


def _both(model: str, tokenizer: object) -> Iterator[tuple[ResolvedRenderer, ResolvedRenderer]]:
    """Who serves the model by its name, and who by default; nothing where no backend knows the name."""
    try:
        named = resolve(model, tokenizer, parity="off", detect=False)
    except NoBackendError:
        return
    if named.backend != TEMPLATE_BACKEND:
        yield named, resolve(model, tokenizer)


def _name(renderer: ResolvedRenderer) -> str:
    return f"`{renderer.backend}:{renderer.name}`"


def _equal(renderer: ResolvedRenderer) -> str:
    return parity(renderer).summary().removesuffix(" probes").replace(" probes (", " (")


if __name__ == "__main__":
    main()
