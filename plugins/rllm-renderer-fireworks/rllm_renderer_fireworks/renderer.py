"""The cookbook's renderers behind the core's protocol: the tinker plugin's adapter, with the cookbook's forms and rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rllm_renderer_tinker.renderer import TinkerRenderer

from .activation import factory
from .corrections import CORRECTIONS
from .deepseek import DeepSeekV4Renderer
from .families import DATED, base_of
from .forms import shaped
from .gemma import Gemma4Renderer
from .kimi_k3 import KimiK3Renderer
from .whole import WholeRenderer

ADAPTERS: dict[str, type[TinkerRenderer]] = {
    "deepseek_v4": DeepSeekV4Renderer,
    "deepseek_v4_disable_thinking": DeepSeekV4Renderer,
    "gemma4": Gemma4Renderer,
    "gemma4_thinking": Gemma4Renderer,
    "kimi_k3": KimiK3Renderer,
    "kimi_k3_disable_thinking": KimiK3Renderer,
    "qwen2_5": WholeRenderer,
}
"""By the cookbook's names; all others have the adapter as it is."""


def build(name: str, tokenizer: Any, image_processor: Any = None, date: str = "") -> TinkerRenderer:
    """A renderer by a name of the cookbook's or of ``families.FORMS``. Its ``upstream`` is the cookbook's own.

    Raises:
        BackendUnavailableError: The cookbook can't be imported or lacks it.
    """
    base = base_of(name)
    upstream = shaped(factory(base)(tokenizer, image_processor), name)
    if name in DATED and date:
        upstream.options = replace(upstream.options, current_date=date)
    return ADAPTERS.get(base, TinkerRenderer)(upstream, name, tokenizer, corrections=CORRECTIONS)
