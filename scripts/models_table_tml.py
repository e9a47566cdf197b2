"""Prints, as markdown, what tml's renderers do: prompts on all parity probes, bridges on the nine turn shapes.

    PYTHONPATH=.:plugins/rllm-renderer-tml python scripts/models_table_tml.py

Needs the packages of the tests (see tests/support/real_tokenizers.py). Compared with the official template, with DeepSeek's own
encoder for DeepSeek-V4, whose bridges are compared with the encoder's tail.
"""

# ruff: noqa: T201
from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))

import shapes
import tml_oracle as oracle
import tml_sft
from models_cells import DECLINED, DIFFERS, EQUAL, NOT_APPLICABLE, Compared, Table, measured_with, reason_of
from rllm_renderer_template.parity.bridges import BridgeOutcome, compare_bridges
from rllm_renderer_template.parity.probes import PROBES, Probe
from rllm_renderer_tml.families import FAMILIES

from rllm_renderer_core import BridgeDeclined, RendererError
from rllm_renderer_core.normal_form.tokenizer import reasoning_ids

OUTCOMES = {
    BridgeOutcome.AGREES: EQUAL,
    BridgeOutcome.DIFFERS: DIFFERS,
    BridgeOutcome.DECLINED: DECLINED,
    BridgeOutcome.UNPROVEN: NOT_APPLICABLE,
    BridgeOutcome.REFUSED: NOT_APPLICABLE,
    BridgeOutcome.NOT_TRIED: NOT_APPLICABLE,
}
HARMONY = "behind calls the reference is harmony, which serves; the template writes results in quotation marks"


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("tml-renderers", "transformers"))
    table = Table(("renderer", "model", "thinking", "prompts on all probes", "bridges on nine shapes"))
    for case in oracle.CASES:
        if oracle.missing(case.model):
            continue
        renderer = oracle.resolved(case.renderer, case.model, case.thinking)
        prompts, bridges = table.tally(rendered(case, renderer)), table.tally(bridged(case, renderer))
        thinking = {None: "default", True: "on", False: "off"}[case.thinking]
        table.row(case.renderer, case.model, thinking, prompts, bridges)
    table.end()
    print("\n`supervised` beside upstream's `render_for_sft`: text, reasoning, two turns, a call.\n")
    beside = Table(("renderer", "model", "training sequences"))
    for case in oracle.CASES:
        if case.thinking is None and not oracle.missing(case.model):
            found = (Compared(what, EQUAL if why == tml_sft.EQUAL else DIFFERS, why) for what, why in tml_sft.compared(case))
            beside.row(case.renderer, case.model, beside.tally(found))
    for text, number in beside.notes.items():
        print(f"{chr(10) if number == 1 else ''}{number}. {text}")
    rest = [f"{family.name} ({', '.join(family.models)})" for family in FAMILIES if not family.compared]
    print(f"\nNever compared, as nothing official can be had offline; taken only where named: {'; '.join(rest)}.")


def rendered(case: oracle.Case, renderer: Any) -> Iterator[Compared]:
    for probe in PROBES:
        expected = oracle.official(case, probe)
        try:
            ids = renderer.render_ids(probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt)
        except RendererError as error:
            if expected is None:
                yield Compared(probe.name, NOT_APPLICABLE, "the official one refuses it too")
            else:
                yield Compared(probe.name, DECLINED, reason_of(error).partition(": ")[2] or reason_of(error))
            continue
        if expected is None:
            yield Compared(probe.name, NOT_APPLICABLE, "the official one refuses it")
        elif probe.tags & case.deviating:
            yield Compared(probe.name, EQUAL if ids == expected else DIFFERS, "" if ids == expected else HARMONY)
        else:
            yield Compared(probe.name, EQUAL if ids == expected else DIFFERS)


def bridged(case: oracle.Case, renderer: Any) -> Iterator[Compared]:
    if case.model != oracle.V4:  # whose reference is an encoder, which bridges nothing
        for found in compare_bridges(renderer, oracle.template(case.model, case.thinking)):
            harmony = found.outcome is BridgeOutcome.DIFFERS and bool(case.deviating)
            yield Compared(found.shape, OUTCOMES[found.outcome], HARMONY if harmony else found.reason)
        return
    stops = renderer.get_stop_token_ids()
    for shape in shapes.SHAPES:
        tools = shapes.TOOLS if shape.assistant.get("tool_calls") else None
        whole = Probe("whole", (*shapes.OPENING, shape.assistant, *shape.new), True, tools)
        expected = oracle.official(case, whole)
        try:
            prompt = renderer.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
            sampled = completion(renderer, prompt, shape, tools, stops)
        except RendererError as error:
            yield Compared(shape.name, DECLINED, reason_of(error).partition(": ")[2] or reason_of(error))
            continue
        out = renderer.try_bridge(prompt, sampled, shape.new, tools=tools, previous_message=shape.assistant)
        if isinstance(out, BridgeDeclined):
            yield Compared(shape.name, DECLINED, reason_of(out).split("': ")[-1])
            continue
        delta = out.token_ids[len(prompt) + len(sampled) :]
        if expected is None:
            yield Compared(shape.name, NOT_APPLICABLE, "the official one refuses the conversation")
        else:
            yield Compared(shape.name, EQUAL if expected[len(expected) - len(delta) :] == delta else DIFFERS)


def completion(renderer: Any, prompt: list[int], shape: shapes.Shape, tools: Any, stops: list[int]) -> list[int]:
    """The turn as the renderer writes it behind the prompt, with its stop."""
    for more in ({"reasoning_content": "Hm."}, {}):
        through = renderer.render_ids([*shapes.OPENING, {**shape.assistant, **more}], tools=tools)
        if through[: len(prompt)] == prompt:
            end = next((at for at in range(len(prompt), len(through)) if through[at] in stops), len(through) - 1)
            return list(through[len(prompt) : end + 1])
    last = next(at for at in reversed(range(len(through))) if through[at] in stops)
    start = next((at for at in range(len(prompt)) if through[at] != prompt[at]), len(prompt))
    words = renderer.tokenizer.encode("fine", add_special_tokens=False)
    inside = not renderer.parse_response(words, prompt_ids=prompt).reasoning_complete
    return [*(reasoning_ids(renderer.tokenizer)[1:] if inside else ()), *through[start : last + 1]]


if __name__ == "__main__":
    main()
