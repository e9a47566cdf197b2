"""Prints, as markdown, how many turns of five conversations ``supervised`` trains exactly, beside upstreams' own builders.

    PYTHONPATH=COOKBOOK python scripts/models_table_supervised.py [part of a model's name ...]

Needs the packages of the tests (see tests/support/real_tokenizers.py). A turn is exact where the official text of its prompt,
id for id, stands in front of exactly what the model samples, in one training sequence (tests/support/supervised_oracle.py).
What the format forbids isn't counted as reachable. ``upstream`` is ``renderers.build_training_sample`` for prime,
``build_supervised_examples`` for tinker and fireworks, ``render_for_sft`` for tml, and the assistant mask of transformers
for the chat template.
"""

# ruff: noqa: T201
from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import real_tokenizers
import shapes
import supervised_oracle as oracle
from models_cells import Table, measured_with, wanted
from rllm_renderer_training import supervised
from supervised_backends import BACKENDS, Served, served, tools_on

from rllm_renderer_core.errors import RendererError

Sequences = list[tuple[list[int], list[bool]]]


def main() -> None:
    warnings.simplefilter("ignore")
    print(measured_with("renderers", "tinker-cookbook", "tml-renderers", "transformers"))
    table = Table(("model", "backend", "reachable turns", "exact", "wrong", "upstream exact"))
    total = Counter[str]()
    for model in real_tokenizers.MODELS:
        if not wanted(model):
            continue
        for backend in (*BACKENDS, "tml"):
            found = served(model, backend)
            if isinstance(found, Served):
                counts = measured(found)
                total.update(dict(zip(("reachable", "exact", "wrong", "upstream"), counts, strict=True)))
                table.row(model, f"{backend}:{found.renderer.name}", *map(str, counts))
    table.row("all", "", *(str(total[each]) for each in ("reachable", "exact", "wrong", "upstream")))
    table.end()


def measured(on: Served) -> tuple[int, int, int, int]:
    """Reachable turns; those that ``supervised`` has exactly; its trained runs that aren't a turn; those of the upstream."""
    reachable = exact = wrong = upstream = 0
    for messages, declared in oracle.conversations(on.model, on.renderer.name).values():
        tools = tools_on(on, declared)
        turns = [
            turn for turn in oracle.turns(on.tokenizer, on.text_of, on.model, messages, tools) if turn.completion is not None
        ]
        reachable += len(turns)
        try:
            ours = [
                (each.token_ids, [bool(weight) for weight in each.weights])
                for each in supervised(on.renderer, messages, tools=tools, unreachable="skip")
            ]
        except RendererError:
            ours = []
        hits = among(ours, turns)
        exact += hits
        wrong += sum(len(runs(mask)) for _, mask in ours) - hits
        upstream += among(their_own(on, messages, tools), turns)
    return reachable, exact, wrong, upstream


def runs(mask: Sequence[bool]) -> list[tuple[int, int]]:
    edges = [at for at in range(len(mask) + 1) if (at < len(mask) and mask[at]) != (at > 0 and mask[at - 1])]
    return list(zip(edges[::2], edges[1::2], strict=True))


def among(sequences: Sequences, turns: Sequence[oracle.Turn]) -> int:
    """How many of these turns are a trained run of a sequence, behind their own prompt."""
    have = {(tuple(ids[:start]), tuple(ids[start:end])) for ids, mask in sequences for start, end in runs(mask)}
    return sum((turn.prompt, turn.completion) in have for turn in turns)


def their_own(on: Served, messages: list[dict[str, Any]], tools: Any) -> Sequences:
    try:
        return THEIRS[on.backend](on, messages, tools)
    except Exception:  # an upstream refuses with whatever it likes: it has none then
        return []


def _prime(on: Served, messages: list[dict[str, Any]], tools: Any) -> Sequences:
    from renderers.base import build_training_sample

    out = build_training_sample(on.renderer.upstream.upstream, messages, tools=tools)
    return [(list(out.token_ids), [bool(each) for each in out.loss_mask])]


def _cookbook(on: Served, messages: list[dict[str, Any]], tools: Any) -> Sequences:
    from rllm_renderer_tinker.conversion import to_upstream
    from tinker_cookbook.renderers.base import TrainOnWhat

    upstream = on.renderer.upstream.upstream
    given = [to_upstream(message, on.renderer.name) for message in (messages[1:] if tools else messages)]
    if tools:
        functions = [tool["function"] for tool in tools]
        given = [*upstream.create_conversation_prefix_with_tools(functions, messages[0]["content"]), *given]
    examples = upstream.build_supervised_examples(given, TrainOnWhat.ALL_ASSISTANT_MESSAGES)
    return [(list(ids.to_ints()), [bool(weight) for weight in weights.tolist()]) for ids, weights in examples]


def _tml(on: Served, messages: list[dict[str, Any]], tools: Any) -> Sequences:
    from rllm_renderer_tml.conversion import to_upstream

    examples = on.renderer.upstream.upstream.render_for_sft(to_upstream(messages, tools))
    return [
        (
            [token for span in example.input_token_spans for token in span.span.int_tokens],
            [bool(weight) for weight in example.per_token_loss_weight_unshifted],
        )
        for example in examples
    ]


def _transformers(on: Served, messages: list[dict[str, Any]], tools: Any) -> Sequences:
    out = on.tokenizer.apply_chat_template(
        shapes.for_template(on.tokenizer, messages), tools=tools, return_dict=True, return_assistant_tokens_mask=True
    )
    return [(list(out["input_ids"]), [bool(each) for each in out["assistant_masks"]])]


THEIRS = {
    "prime": _prime,
    "tinker": _cookbook,
    "fireworks": _cookbook,
    "tml": _tml,
    "chat-template": _transformers,
    "minimax-m3": lambda on, messages, tools: [],
}


if __name__ == "__main__":
    main()
