"""What the official formats have and the cookbook's renderers lack, where rewriting messages isn't enough to correct it.

A renderer's form is the cookbook's object with methods of ours in front: for all renderers of a family, or for another model's
format under a name of ours.
"""

from __future__ import annotations

from typing import Any

from . import deepseek, gemma, glm, minimax, mistral, qwen

METHODS: dict[str, tuple[type, ...]] = {
    "deepseek_v4": (deepseek.Numbered,),
    "deepseek_v4_disable_thinking": (deepseek.Numbered,),
    "gemma4": (gemma.Gemma,),
    "gemma4_e2b": (gemma.NoEmptyThought, gemma.Gemma),
    "gemma4_thinking": (gemma.Gemma,),
    "glm5": (glm.Glm51,),
    "glm5_0": (glm.Glm50,),
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


def shaped(upstream: Any, name: str) -> Any:
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
