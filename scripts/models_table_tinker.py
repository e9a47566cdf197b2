"""Prints, as markdown, what tinker's renderers do on each turn shape: render parity and bridge, on the installed version.

    PYTHONPATH=.:plugins/rllm-renderer-tinker python scripts/models_table_tinker.py

Needs the packages of the tests (see tests/support/real_tokenizers.py). A prompt is the whole conversation with its opener; a
bridge goes from a turn that the official template wrote, stop included. Both are done without tools and with two.
"""

# ruff: noqa: T201
from __future__ import annotations

import pathlib
import sys
import warnings
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))

import real_tokenizers
import shapes
import tinker_oracle as oracle
from models_cells import DECLINED, DIFFERS, EQUAL, NOT_APPLICABLE, Compared, Table, measured_with, reason_of
from rllm_renderer_tinker.backend import TinkerBackend

from rllm_renderer_core import BridgeDeclined, RendererError
from rllm_renderer_core.normal_form.tokenizer import reasoning_ids
from rllm_renderer_core.plugin import Coverage, Query
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

OWN = "there is nothing official to compare with; it equals the renderer's own full render"


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("tinker-cookbook", "transformers"))
    table = Table(("renderer", "model", "prompts", "bridges"))
    for case in [*oracle.CASES, *oracle.MORE, *oracle.OWN]:
        why = real_tokenizers.missing(case.model)
        renderer = None if why else resolved(case)
        if renderer is None:
            continue
        each = [(case, renderer, shape, tools) for shape in shapes.SHAPES for tools in (None, shapes.TOOLS)]
        prompts, bridges = table.tally(rendered(*one) for one in each), table.tally(bridged(*one) for one in each)
        table.row(case.renderer, case.model, prompts, bridges)
    table.end()


def resolved(case: oracle.Case) -> ResolvedRenderer | None:
    backend = TinkerBackend()
    query = Query(case.model, oracle.tokenizer(case.model), renderer=case.renderer)
    coverage = backend.covers(query)
    if not isinstance(coverage, Coverage):
        return None
    resolution = Resolution(case.model, "tinker", case.renderer, "named", coverage.has_bridge)
    return ResolvedRenderer(backend, query, coverage, resolution)


def named(shape: shapes.Shape, tools: Any) -> str:
    return shape.name + (" with tools" if tools else "")


def rendered(case: oracle.Case, renderer: ResolvedRenderer, shape: shapes.Shape, tools: Any) -> Compared:
    messages = [*shapes.OPENING, shape.assistant, *shape.new]
    expected = oracle.expected_ids(case, messages, tools, True)
    try:
        ids = renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
    except RendererError as error:
        return Compared(named(shape, tools), DECLINED, reason_of(error).partition(": ")[2] or reason_of(error))
    if expected is None:
        return Compared(named(shape, tools), NOT_APPLICABLE, "no official template here accepts the conversation")
    return Compared(named(shape, tools), EQUAL if ids == expected else DIFFERS)


def bridged(case: oracle.Case, renderer: ResolvedRenderer, shape: shapes.Shape, tools: Any) -> Compared:
    what = named(shape, tools)
    expected, official = oracle.official_delta(case, shape, tools), oracle.official_turn(case, shape, tools)
    turns = own_turns(case, renderer, tools) if official is None else [official]
    try:
        full = renderer.render_ids([*shapes.OPENING, shape.assistant, *shape.new], tools=tools, add_generation_prompt=True)
    except RendererError:
        full = []
    more = {"tools": tools, "previous_message": shape.assistant}
    tried = [(renderer.try_bridge(p, c, shape.new, **more), len(p) + len(c)) for p, c in turns]
    made = [(out.token_ids[size:], size) for out, size in tried if not isinstance(out, BridgeDeclined)]
    if not made:
        return Compared(what, DECLINED, reason_of(tried[0][0]).split("': ")[-1] if tried else "no turn can be made")
    delta = made[0][0]
    if expected is not None:
        return Compared(what, EQUAL if delta == expected else DIFFERS)
    return (
        Compared(what, NOT_APPLICABLE, OWN) if full[-len(delta) :] == delta else Compared(what, DIFFERS, "from its own render")
    )


def own_turns(case: oracle.Case, renderer: ResolvedRenderer, tools: Any) -> list[tuple[list[int], list[int]]]:
    """P, and a word with each stop."""
    try:
        prompt = renderer.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
    except RendererError:
        return []
    word = shapes.encode(oracle.tokenizer(case.model), "fine")
    close = list(reasoning_ids(renderer.tokenizer)[1:])
    open_ended = not renderer.parse_response(word, prompt_ids=prompt).reasoning_complete
    return [(prompt, [*(close if open_ended else []), *word, stop]) for stop in renderer.get_stop_token_ids()]


if __name__ == "__main__":
    main()
