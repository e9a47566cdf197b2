"""Draws docs/pictures: ``make pictures``. Each picture is drawn twice, for a light and a dark page.

- ``drift``: a sampled turn that is rendered again and differs at one id, beside the bridge that keeps it. The ids are those of
  Qwen3-8B's tokenizer and chat template; they stand in the picture's description too, where a test reads them.
- ``cost``: what a turn costs over the length of its history, from docs/pictures/cost.json, which ``--measure`` writes anew.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "benchmarks"))

import matplotlib as mpl
import real_tokenizers
from matplotlib import pyplot

from rllm_renderer_core import resolve

MODEL = "Qwen/Qwen3-8B"
PICTURES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "pictures"
MEASURED = PICTURES / "cost.json"
QUESTION = {"role": "user", "content": "Tea?"}
COMPLETION = '<think>\nLook.\n</think>\n\n<tool_call>\n{"name":"look","arguments":{"q":"tea"}}\n</tool_call><|im_end|>'
SHOWN = 6
"""As many ids of each row are shown; what is special stands behind the first two of them."""
THEMES = {
    "light": {"page": "#ffffff", "text": "#1f2328", "quiet": "#656d76", "id": "#eef1f4", "wrong": "#ffd8d3", "new": "#d3f0d8"},
    "dark": {"page": "#0d1117", "text": "#e6edf3", "quiet": "#8d96a0", "id": "#262c36", "wrong": "#7a2b26", "new": "#1c4a2b"},
}
LINES = {"apply_chat_template": "#c4453b", "prime": "#2f81f7", "chat template": "#2da44e"}


def drift_ids() -> dict[str, list[int]]:
    """The ids of one turn: as sampled, as rendered again, and as the next prompt has them by the bridge."""
    renderer = resolve(MODEL, real_tokenizers.load(MODEL), backend="prime")
    prompt = renderer.render_ids([QUESTION], add_generation_prompt=True)
    completion = renderer.tokenizer.encode(COMPLETION, add_special_tokens=False)
    message = renderer.parse_response(completion, prompt_ids=prompt).to_message()
    result = {"role": "tool", "content": "green", "tool_call_id": message["tool_calls"][0]["id"]}
    again = renderer.tokenizer.apply_chat_template(
        [QUESTION, message, result], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    bridged = renderer.bridge_to_next_turn(prompt, completion, [result])
    assert bridged is not None and bridged.token_ids[: len(prompt) + len(completion)] == [*prompt, *completion]
    first = next(at for at, (one, other) in enumerate(zip(bridged.token_ids, again, strict=False)) if one != other)
    start = first - 2
    return {
        "sampled": [*prompt, *completion][start : start + SHOWN],
        "rendered again": again[start : start + SHOWN],
        "bridged": bridged.token_ids[start : start + SHOWN],
        "appended": bridged.token_ids[len(prompt) + len(completion) :][:2],
    }


def draw_drift(colors: dict[str, str], ids: dict[str, list[int]]) -> Any:
    """Three rows of ids, each with its text above it; what wasn't sampled is red, what the bridge appends green."""
    tokenizer = real_tokenizers.load(MODEL)
    figure, axes = pyplot.subplots(figsize=(8.4, 4.2))
    axes.set(xlim=(0, 8.4), ylim=(0, 4.2))
    axes.axis("off")
    says = {
        "sampled": "sampled by the model",
        "rendered again": "rendered again by the chat template: trained on ids that it never produced",
        "bridged": "bridged: the sampled ids stay, the tool's result is appended",
    }
    for row, (name, label) in enumerate(says.items()):
        top = 4.1 - row * 1.4
        axes.text(0.05, top, label, color=colors["text"], fontsize=12.5, va="top", weight="bold")
        for at, token in enumerate(ids[name]):
            wrong = token != ids["sampled"][at]
            box(axes, 0.05 + at * 1.02, top - 0.4, token, tokenizer, colors["wrong" if wrong else "id"], colors)
        axes.text(6.29, top - 0.75, "...", color=colors["text"], fontsize=14, ha="center")
        if name == "bridged":
            for at, token in enumerate(ids["appended"]):
                box(axes, 6.5 + at * 0.95, top - 0.4, token, tokenizer, colors["new"], colors, width=0.9)
    return figure


def box(
    axes: Any, x: float, top: float, token: int, tokenizer: Any, fill: str, colors: dict[str, str], width: float = 0.96
) -> None:
    """One token: its text, its id below."""
    axes.add_patch(mpl.patches.FancyBboxPatch((x + 0.05, top - 0.72), width - 0.1, 0.72, "round,pad=0.03", fc=fill, ec="none"))
    text = tokenizer.decode([token]).replace("\n", "\\n").replace(" ", "\u2423")
    size = 13 if len(text) < 8 else 8.5 if len(text) < 11 else 7
    axes.text(
        x + width / 2, top - 0.22, text, color=colors["text"], fontsize=size, ha="center", va="center", family="monospace"
    )
    axes.text(x + width / 2, top - 0.56, token, color=colors["quiet"], fontsize=10.5, ha="center", va="center")


def measure() -> dict[str, Any]:
    """Seconds a turn by the length of its history, in ids: the history rendered again, and two bridges."""
    from run import conversation, seconds  # benchmarks/run.py

    tokenizer = real_tokenizers.load(MODEL)
    prime, template = (resolve(MODEL, tokenizer, backend=backend) for backend in ("prime", "chat-template"))
    points: dict[str, list[tuple[int, float]]] = {name: [] for name in LINES}
    for size in (1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000):
        history, turn, new = conversation(tokenizer, size)
        prompt = prime.render_ids(history, add_generation_prompt=True)
        sampled = prime.render_ids([*history, turn])[len(prompt) : -1]

        def again(messages: Sequence[Any] = (*history, turn, *new)) -> Any:
            return tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True, return_dict=False)

        def bridge(renderer: Any, given: Sequence[Any] = (prompt, sampled, new), turn: Any = turn) -> Any:
            return renderer.bridge_to_next_turn(*given, previous_message=turn)

        calls: dict[str, Callable[[], object]] = {
            "apply_chat_template": again,
            "prime": lambda bridge=bridge: bridge(prime),
            "chat template": lambda bridge=bridge: bridge(template),
        }
        for name, call in calls.items():
            points[name].append((len(prompt), seconds(call, 3 if name == "apply_chat_template" else 20)))
    return {"model": MODEL, "points": points}


def draw_cost(colors: dict[str, str], measured: dict[str, Any]) -> Any:
    """Microseconds a turn over the ids of its history, both on logarithmic axes."""
    figure, axes = pyplot.subplots(figsize=(8.4, 4.2))
    axes.set(xscale="log", yscale="log", facecolor=colors["page"])
    says = {
        "apply_chat_template": "apply_chat_template, whole history",
        "prime": "bridge, prime",
        "chat template": "bridge, chat template",
    }
    for name, points in measured["points"].items():
        lengths, costs = zip(*points, strict=True)
        axes.plot(lengths, [1e6 * cost for cost in costs], marker="o", color=LINES[name], linewidth=2, label=says[name])
    axes.set_xlabel("ids in the history", color=colors["text"], fontsize=12.5)
    axes.set_ylabel("microseconds a turn", color=colors["text"], fontsize=12.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.tick_params(which="both", colors=colors["text"], labelsize=11)
    axes.grid(color=colors["quiet"], alpha=0.25)
    for spine in axes.spines.values():
        spine.set_color(colors["quiet"])
    axes.legend(frameon=False, labelcolor=colors["text"], fontsize=12)
    return figure


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--measure", action="store_true", help="measure the costs anew; on a quiet machine")
    if arguments.parse_args().measure:
        MEASURED.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    ids, measured = drift_ids(), json.loads(MEASURED.read_text(encoding="utf-8"))
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "rllm-renderer"  # the same file each time
    for theme, colors in THEMES.items():
        for name, draw, shown in (("drift", draw_drift, ids), ("cost", draw_cost, measured)):
            figure = draw(colors, shown)
            described = json.dumps(shown)
            figure.savefig(
                PICTURES / f"{name}-{theme}.svg",
                facecolor=colors["page"],
                bbox_inches="tight",
                pad_inches=0.1,
                metadata={"Date": None, "Creator": None, "Description": described},
            )
            pyplot.close(figure)


if __name__ == "__main__":
    main()
