"""Prints, as markdown, what tinker's renderers do on each turn shape: render parity and bridge, on the installed version.

    PYTHONPATH=.:plugins/rllm-renderer-tinker python scripts/models_table_tinker.py

Needs the packages of the tests (see tests/support/real_tokenizers.py). Each cell is ``render / bridge``. The render is that of
the whole conversation with its opener; the bridge goes from a turn that the official template wrote, stop included. Both are
done without tools and with two; where the two disagree, both are printed.
"""

# ruff: noqa: T201
from __future__ import annotations

import pathlib
import sys
import warnings
from importlib.metadata import version
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))

import real_tokenizers
import shapes
import tinker_oracle as oracle
from rllm_renderer_tinker.backend import TinkerBackend

from rllm_renderer_core import BridgeDeclined, RendererError
from rllm_renderer_core.plugin import Coverage, Query
from rllm_renderer_core.renderer import ResolvedRenderer
from rllm_renderer_core.resolution import Resolution


def main() -> None:
    warnings.simplefilter("ignore")
    notes: dict[str, int] = {}
    print(f"tinker-cookbook {version('tinker-cookbook')}\n")
    print("| renderer | model | " + " | ".join(shape.name for shape in shapes.SHAPES) + " |")
    print("|---|---|" + "---|" * len(shapes.SHAPES))
    for case in [*oracle.CASES, *oracle.MORE, *oracle.OWN]:
        why = real_tokenizers.missing(case.model)
        renderer = None if why else resolved(case)
        if renderer is None:
            continue
        cells = []
        for shape in shapes.SHAPES:
            by_tools = [cell(case, renderer, shape, tools, notes) for tools in (None, shapes.TOOLS)]
            cells.append(by_tools[0] if by_tools[0] == by_tools[1] else f"{by_tools[0]}; tools: {by_tools[1]}")
        print(f"| {case.renderer} | {case.model.split('/')[1]} | " + " | ".join(cells) + " |")
    print()
    for note, number in notes.items():
        print(f"{number}. {note}")


def resolved(case: oracle.Case) -> ResolvedRenderer | None:
    backend = TinkerBackend()
    query = Query(case.model, oracle.tokenizer(case.model), renderer=case.renderer)
    coverage = backend.covers(query)
    if not isinstance(coverage, Coverage):
        return None
    resolution = Resolution(case.model, "tinker", case.renderer, "named", coverage.has_bridge)
    return ResolvedRenderer(backend, query, coverage, resolution)


def cell(case: oracle.Case, renderer: ResolvedRenderer, shape: shapes.Shape, tools: Any, notes: dict[str, int]) -> str:
    return f"{rendered(case, renderer, shape, tools, notes)} / {bridged(case, renderer, shape, tools, notes)}"


def rendered(case: oracle.Case, renderer: ResolvedRenderer, shape: shapes.Shape, tools: Any, notes: dict[str, int]) -> str:
    messages = [*shapes.OPENING, shape.assistant, *shape.new]
    expected = oracle.expected_ids(case, messages, tools, True)
    try:
        ids = renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
    except RendererError as error:
        return f"refused{_note(error, notes)}"
    if expected is None:
        return "n/a"
    return "equal" if ids == expected else "differs"


def bridged(case: oracle.Case, renderer: ResolvedRenderer, shape: shapes.Shape, tools: Any, notes: dict[str, int]) -> str:
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
        out = tried[0][0] if tried else "no turn can be made"
        return f"declined{_note(out, notes)}"
    delta = made[0][0]
    if expected is not None:
        return "equal" if delta == expected else "differs"
    return "own" if full[-len(delta) :] == delta else "differs from its own render"


def own_turns(case: oracle.Case, renderer: ResolvedRenderer, tools: Any) -> list[tuple[list[int], list[int]]]:
    """P, and a word with each stop."""
    try:
        prompt = renderer.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
    except RendererError:
        return []
    word = shapes.encode(oracle.tokenizer(case.model), "fine")
    close = list(renderer.upstream.reasoning_ids[1:])
    open_ended = not renderer.parse_response(word, prompt_ids=prompt).reasoning_complete
    return [(prompt, [*(close if open_ended else []), *word, stop]) for stop in renderer.get_stop_token_ids()]


def _note(error: Any, notes: dict[str, int]) -> str:
    text = str(getattr(error, "reason", error)).splitlines()[0]
    return f" [{notes.setdefault(text, len(notes) + 1)}]"


if __name__ == "__main__":
    main()
