"""The one table of models: which renderer serves which ids, where that was checked, and the variants that think or don't.

An id is compared as a whole, letters of either case. Fireworks' own ids are ``accounts/<account>/models/<name>``, with ``p``
for the dot. A fine-tune or a distillation has another name, so it never matches: for those there is ``renderer=``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Family:
    """One row.

    Attributes:
        renderer: Name of the renderer that renders as the official template does without options.
        published: Rule for ids on the model hub, ``organization/name``.
        fireworks: Rule for the name in Fireworks' own ids.
        checked: Ids on whose official tokenizer and template, or encoder, ids were compared; see ``tests/fireworks``.
        source: What the rule is taken from.
    """

    renderer: str
    published: str
    fireworks: str
    checked: tuple[str, ...]
    source: str

    @cached_property
    def _rule(self) -> re.Pattern[str]:
        return re.compile(rf"(?:{self.published})|accounts/[^/]+/models/(?:{self.fireworks})", re.IGNORECASE)

    def matches(self, model: str) -> bool:
        """Whether the whole id is one of this row's."""
        return self._rule.fullmatch(model) is not None


FAMILIES: tuple[Family, ...] = (
    Family(
        "deepseek_v4",
        r"(?:deepseek-ai|sgl-project)/DeepSeek-V4-(?:Flash|Pro)(?:-\d{4})?(?:-FP8)?",
        r"deepseek-v4-(?:flash|pro)(?:-\d{4})?(?:-fp8)?",
        ("deepseek-ai/DeepSeek-V4-Flash",),
        "encoding_dsv4.py of DeepSeek-V4-Flash, thinking mode",
    ),
    Family(
        "gemma4_e2b",
        r"google/gemma-4-E[24]B-it",
        r"gemma-4-e[24]b-it",
        ("google/gemma-4-E2B-it",),
        "chat_template.jinja of gemma-4-E2B-it: no empty thought behind the opener",
    ),
    Family(
        "gemma4",
        r"google/gemma-4-(?:26B-A4B|31B)-it",
        r"gemma-4-(?:26b-a4b|31b)-it",
        (),
        "the cookbook's gemma4, after the larger models' chat_template.jinja: an empty thought behind the opener",
    ),
    Family(
        "glm5_0",
        r"zai-org/GLM-5(?:-FP8)?",
        r"glm-5(?:-fp8)?",
        ("zai-org/GLM-5",),
        "chat_template.jinja of GLM-5: tools as wrappers, no empty thought in turns without reasoning",
    ),
    Family(
        "glm5",
        r"zai-org/GLM-5\.1(?:-FP8)?",
        r"glm-5p1(?:-fp8|-bf16)?",
        ("zai-org/GLM-5.1",),
        "chat_template.jinja of GLM-5.1",
    ),
    Family(
        "glm_moe_dsa",
        r"zai-org/GLM-5\.2(?:-FP8)?",
        r"glm-5p2(?:-fp8)?",
        ("zai-org/GLM-5.2",),
        "chat_template.jinja of GLM-5.2: states the reasoning effort first",
    ),
    Family(
        "kimi_k25_interleaved",
        r"moonshotai/Kimi-K2\.5",
        r"kimi-k2p5(?:-vl)?",
        (),
        "the cookbook's renderer for K2.5's chat_template.jinja: no system message of its own",
    ),
    Family(
        "kimi_k26_interleaved",
        r"moonshotai/Kimi-K2\.6",
        r"kimi-k2p6",
        ("moonshotai/Kimi-K2.6",),
        "chat_template.jinja of Kimi-K2.6, tools as TypeScript as its tokenizer class writes them",
    ),
    Family(
        "kimi_k27_code",
        r"moonshotai/Kimi-K2\.7-Code",
        r"kimi-k2p7-code",
        (),
        "the cookbook's renderer: K2.6's format that keeps reasoning; compared with K2.6's template with preserve_thinking",
    ),
    Family(
        "kimi_k3", r"moonshotai/Kimi-K3", r"kimi-k3", (), "the cookbook's renderer, which asks Kimi-K3's own tokenizer class"
    ),
    Family(
        "minimax_m2",
        r"MiniMaxAI/MiniMax-M2(?:\.[57])?",
        r"minimax-m2(?:p[57])?",
        ("MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.7"),
        "chat_template.jinja of MiniMax-M2 and M2.7",
    ),
    Family(
        "minimax_m3", r"MiniMaxAI/MiniMax-M3", r"minimax-m3", ("MiniMaxAI/MiniMax-M3",), "chat_template.jinja of MiniMax-M3"
    ),
    Family(
        "mistral",
        r"mistralai/(?:Ministral-3-(?:3B|8B|14B)-(?:Instruct|Reasoning)-2512"
        r"|Mistral-Small-(?:24B-Instruct-2501|3\.1-24B-Instruct-2503|3\.2-24B-Instruct-2506))",
        r"ministral-3-(?:3b|8b|14b)-(?:instruct|reasoning)-2512"
        r"|mistral-small-(?:24b-instruct-2501|3p1-24b-instruct-2503|3p2-24b-instruct-2506)",
        ("mistralai/Ministral-3-14B-Reasoning-2512",),
        "chat_template.jinja of Ministral-3-14B-Reasoning-2512",
    ),
    Family(
        "muse_glimmer",
        r"meta-models/Muse-Glimmer-30B",
        r"muse-glimmer-30b",
        (),
        "the cookbook's renderer for Muse-Glimmer-30B's chat_template.jinja",
    ),
    Family(
        "qwen2_5",
        r"Qwen/Qwen2\.5-32B-Instruct",
        r"qwen2p5-32b-instruct",
        (),
        "the cookbook's renderer for the model as Fireworks serves it, whose template isn't the published one",
    ),
    Family(
        "qwen3_6_interleaved",
        r"Qwen/Qwen3\.6-\d+B(?:-A\d+B)?(?:-FP8)?",
        r"qwen3p6-\d+b(?:-a\d+b)?(?:-fp8)?",
        ("Qwen/Qwen3.6-35B-A3B",),
        "chat_template.jinja of Qwen3.6-35B-A3B",
    ),
    Family(
        "qwen3_8",
        r"Qwen/Qwen3\.8-27B(?:-FP8)?",
        r"qwen3p8-27b(?:-fp8)?",
        ("Qwen/Qwen3.8-27B",),
        "chat_template.jinja of Qwen3.8-27B, which keeps reasoning; not Max and Plus, which are other checkpoints",
    ),
)


THINKING: dict[str, tuple[str | None, str | None]] = {
    "deepseek_v4": ("deepseek_v4", "deepseek_v4_disable_thinking"),
    "gemma4": ("gemma4_thinking", "gemma4"),
    "gemma4_e2b": ("gemma4_thinking", "gemma4_e2b"),
    "glm5_0": ("glm5_0", None),
    "glm5": ("glm5", None),
    "glm5_interleaved": ("glm5_interleaved", None),
    "glm5_preserve_thinking": ("glm5_preserve_thinking", None),
    "glm_moe_dsa": ("glm_moe_dsa", None),
    "glm_moe_dsa_interleaved": ("glm_moe_dsa_interleaved", None),
    "glm_moe_dsa_preserve_thinking": ("glm_moe_dsa_preserve_thinking", None),
    "kimi_k25": ("kimi_k25", None),
    "kimi_k25_interleaved": ("kimi_k25_interleaved", None),
    "kimi_k26_interleaved": ("kimi_k26_interleaved", None),
    "kimi_k26_preserve_thinking": ("kimi_k26_preserve_thinking", None),
    "kimi_k27_code": ("kimi_k27_code", None),
    "kimi_k27_code_preserved": ("kimi_k27_code_preserved", None),
    "kimi_k3": ("kimi_k3", "kimi_k3_disable_thinking"),
    "minimax_m2": ("minimax_m2", None),
    "nemotron3": ("nemotron3", "nemotron3_disable_thinking"),
    "qwen2_5": (None, "qwen2_5"),
    "qwen3": ("qwen3", "qwen3_disable_thinking"),
    "qwen3_5": ("qwen3_5", "qwen3_5_disable_thinking"),
    "qwen3_5_interleaved": ("qwen3_5_interleaved", "qwen3_5_disable_thinking_interleaved"),
    "qwen3_6": ("qwen3_6", "qwen3_6_disable_thinking"),
    "qwen3_6_interleaved": ("qwen3_6_interleaved", "qwen3_6_disable_thinking_interleaved"),
    "qwen3_8": ("qwen3_8", "qwen3_8_disable_thinking"),
    "qwen3_8_interleaved": ("qwen3_8_interleaved", "qwen3_8_disable_thinking_interleaved"),
}
"""Of a renderer that ``renderer=`` or a row names: the variants that think and don't; ``None`` where there is none."""


FORMS: dict[str, str] = {"gemma4_e2b": "gemma4", "glm5_0": "glm5", "qwen3_8_disable_thinking": "qwen3_8"}
"""Formats that the cookbook has no name for, under names of ours: made from its renderer of this name; see ``renderer``."""

DATED = frozenset({"muse_glimmer"})
"""Renderers that write the day."""

STOP_STRINGS = frozenset({"kimi_k3", "kimi_k3_disable_thinking"})
"""Renderers whose stop is a text of several ids: where a turn ends can't be proven, so they have no bridge."""


def base_of(name: str) -> str:
    """The cookbook's name of the renderer that one of this name is made from."""
    return FORMS.get(name, name)


def family_of(model: str) -> Family | None:
    """The row of a model's id, ``None`` where no rule matches the whole of it."""
    return next((row for row in FAMILIES if row.matches(model)), None)


def thinking_variant(renderer: str, thinking: bool | None) -> str | None:
    """The variant of a renderer that thinks or doesn't, itself for ``None``; ``None`` where there is no such variant."""
    if thinking is None:
        return renderer
    on, off = THINKING.get(renderer, (None, None))
    if on is None and off is None:
        # A variant itself: it may be asked for what it is.
        mine = [pair.index(renderer) for pair in THINKING.values() if renderer in pair]
        return renderer if mine and (mine[0] == 0) == thinking else None
    return on if thinking else off
