"""From a name to a renderer: the cookbook's, in its format's form, behind the tinker plugin's adapter with the cookbook's rows.

A renderer's form is the cookbook's object with methods of ours in front, where rewriting messages isn't enough to correct it:
for all renderers of a family, or for another model's format under a name of ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rllm_renderer_tinker.renderer import TinkerRenderer

from .activation import factory
from .corrections import CORRECTIONS
from .families import DATED, base_of
from .models import deepseek, gemma, glm, kimi_k3, minimax, mistral, qwen
from .models.whole import WholeRenderer

METHODS: dict[str, tuple[type, ...]] = {
    "deepseek_v4": (deepseek.Numbered,),
    "deepseek_v4_disable_thinking": (deepseek.Numbered,),
    "gemma4": (gemma.Gemma,),
    "gemma4_e2b": (gemma.NoEmptyThought, gemma.Gemma),
    "gemma4_thinking": (gemma.Gemma,),
    "glm5_0": (glm.Glm50,),
    "glm5": (glm.Glm51,),
    "glm5_interleaved": (glm.Glm51,),
    "glm5_preserve_thinking": (glm.Glm51,),
    "glm_moe_dsa": (glm.Glm51,),
    "glm_moe_dsa_interleaved": (glm.Glm51,),
    "glm_moe_dsa_preserve_thinking": (glm.Glm51,),
    "minimax_m2": (minimax.M2,),
    "minimax_m3": (minimax.M3,),
    "mistral": (mistral.PlainTools,),
    "qwen3_8_disable_thinking": (qwen.NoThinking,),
}
"""Classes whose methods stand in front, by the renderer's name."""

ADAPTERS: dict[str, type[TinkerRenderer]] = {
    "deepseek_v4": deepseek.DeepSeekV4Renderer,
    "deepseek_v4_disable_thinking": deepseek.DeepSeekV4Renderer,
    "gemma4": gemma.Gemma4Renderer,
    "gemma4_thinking": gemma.Gemma4Renderer,
    "kimi_k3": kimi_k3.KimiK3Renderer,
    "kimi_k3_disable_thinking": kimi_k3.KimiK3Renderer,
    "qwen2_5": WholeRenderer,
}
"""By the cookbook's names; all others have the adapter as it is."""


def build(name: str, tokenizer: Any, image_processor: Any = None, date: str = "") -> TinkerRenderer:
    """A renderer by a name of the cookbook's or of ``families.FORMS``. Its ``upstream`` is the cookbook's own.

    Raises:
        BackendUnavailableError: The cookbook can't be imported or lacks it.
    """
    base = base_of(name)
    upstream = _shaped(factory(base)(tokenizer, image_processor), name)
    if name in DATED and date:
        upstream.options = replace(upstream.options, current_date=date)
    return ADAPTERS.get(base, TinkerRenderer)(upstream, name, tokenizer, corrections=CORRECTIONS)


def _shaped(upstream: Any, name: str) -> Any:
    """The cookbook's renderer of ``base_of(name)`` in the form of this name. ``upstream`` isn't changed."""
    methods = METHODS.get(name, ())
    if not methods:
        return upstream
    kind = type(upstream)
    twin: Any = object.__new__(type(kind.__name__, (*methods, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__}))
    vars(twin).update(vars(upstream))
    for each in methods:
        begin = getattr(each, "begin", None)
        if begin is not None:
            begin(twin)
    return twin
