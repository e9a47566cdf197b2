"""Which backends cover a model, and the official text that each is measured against."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import real_tokenizers
import shapes
from served import resolved

from rllm_renderer_core import RendererError, UnsupportedToolsError

BACKENDS = ("prime", "tinker", "fireworks", "minimax-m3", "chat-template")


@dataclass(frozen=True)
class Served:
    """A model on a backend. ``text_of`` is the official text, harmony's for gpt-oss (see tinker_oracle)."""

    model: str
    backend: str
    renderer: Any
    tokenizer: Any
    text_of: shapes.TextOf


@functools.cache
def served(model: str, backend: str) -> Served | str:
    """The model on the backend, or why it can't be measured there."""
    why = real_tokenizers.missing(model)
    if why:
        return why
    tokenizer = real_tokenizers.load(model)
    options: dict[str, Any] = {"template_bridge": True} if backend == "chat-template" else {}
    if backend == "tinker" and model.startswith("openai/"):
        options["renderer"] = "gpt_oss_medium_reasoning"  # the default leaves out the template's system message
    try:
        renderer = resolved(model, backend, **options)
    except RendererError as error:
        return f"{backend} doesn't serve {model} here: {str(error).splitlines()[0]}"
    text_of = _official(model, backend, renderer.name, tokenizer)
    if text_of is None:
        return f"no official text of {backend}:{renderer.name} can be had offline"
    return Served(model, backend, renderer, tokenizer, text_of)


def on(model: str, backend: str = "chat-template") -> Served:
    """The model on the backend; skips with the reason where it can't be measured there."""
    found = served(model, backend)
    if isinstance(found, str):
        pytest.skip(f"not proved: {found}")
    return found


def tools_on(on: Served, declared: bool) -> Any:
    """Tools where the conversation declares some and the renderer shows declarations; else ``None``."""
    if not declared:
        return None
    try:
        on.renderer.render_ids([shapes.user("ping")], tools=shapes.TOOLS)
    except UnsupportedToolsError:
        return None
    return shapes.TOOLS


def all_served() -> Iterator[Served]:
    """Each model on each backend that covers it here."""
    for model in real_tokenizers.MODELS:
        for backend in BACKENDS:
            found = served(model, backend)
            if isinstance(found, Served):
                yield found


def _official(model: str, backend: str, name: str, tokenizer: Any) -> shapes.TextOf | None:
    if backend == "fireworks":
        import fireworks_oracle

        cases = [case for case in fireworks_oracle.DEFAULTS if (case.renderer, case.model) == (name, model)]
        return fireworks_oracle.reference(cases[0]) if cases else None
    if backend == "tml" and model == "deepseek-ai/DeepSeek-V4-Flash":
        return _official(model, "fireworks", "deepseek_v4", tokenizer)
    if backend == "tml" and model.startswith("openai/"):
        return _official(model, "tinker", "gpt_oss_medium_reasoning", tokenizer)
    if getattr(tokenizer, "chat_template", None) is None:
        return None
    if backend == "tinker":
        import tinker_oracle

        try:
            text_of = tinker_oracle.reference(tinker_oracle.Case(name, model))
        except LookupError:
            return None
        return _changed(text_of, _without_dates) if name == "llama3" else text_of
    if backend == "prime" and model.startswith("openai/"):
        return _harmony(shapes.template_text(tokenizer))
    if backend == "prime" and model.startswith("moonshotai/"):
        if importlib.util.find_spec("tinker_cookbook") is None:
            return None
        import tinker_oracle

        return tinker_oracle._with_typescript(tokenizer, {})
    return shapes.template_text(tokenizer)


def _changed(text_of: shapes.TextOf, change: Callable[[str], str]) -> shapes.TextOf:
    return lambda messages, tools, opener: change(text_of(messages, tools, opener))


def _without_dates(text: str) -> str:
    """tinker's llama3 leaves out the template's header with dates, on purpose (see docs/models-in-detail.md)."""
    return re.sub(r"Cutting Knowledge Date: .*\nToday Date: .*\n\n", "", text, count=1)


def _harmony(text_of: shapes.TextOf) -> shapes.TextOf:
    """What openai_harmony writes where the template differs: no quotes around results, no ``json`` in a call's header,
    reasoning in front of calls alone, nothing behind the instructions (tests/prime/test_harmony.py asks it itself)."""

    def render(messages: list[dict[str, Any]], tools: Any, opener: bool) -> str:
        written = [
            {("thinking" if key == "reasoning_content" else key): value for key, value in message.items()}
            if message.get("tool_calls")
            else {key: value for key, value in message.items() if key != "reasoning_content"}
            for message in messages
        ]
        text = text_of(written, tools, opener).replace(
            "<|channel|>commentary json<|message|>", "<|channel|>commentary<|message|>"
        )
        text = text.replace("\n\n<|end|><|start|>user", "<|end|><|start|>user", 1)
        return re.sub(
            r"(<\|start\|>functions\.\w+ to=assistant<\|channel\|>commentary<\|message\|>)(\".*?\")(?=<\|end\|>)",
            lambda found: found.group(1) + json.loads(found.group(2)),
            text,
        )

    return render
