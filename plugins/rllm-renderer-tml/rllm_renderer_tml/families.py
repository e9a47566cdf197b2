"""Upstream's renderers: the models of each, by exact name, and how the core's options become arguments of its constructor.

Light: nothing of upstream is imported. Names of renderers are upstream's own, a variant as the class method that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """One renderer.

    Attributes:
        name: As ``resolve(renderer=...)`` takes it: upstream's class, with the variant behind a dot.
        models: Exact names of the models that it renders.
        fixed: Constructor arguments that make the variant.
        switch: The template's variable for thinking, or ``None`` where it has none.
        thinking: ``True`` or ``False`` to constructor arguments; what is missing can't be honoured.
        variables: Variables of the template (``chat_template_kwargs``) to a function from their value to constructor arguments;
            it returns ``None`` for a value that upstream doesn't have.
        dated: The constructor argument that takes a date, where the prompt holds one.
        vocabulary: The class of upstream's tokenizer, where the constructor wants one.
        compared: Whether its ids were compared with an official template or encoder, or with a renderer of another author that
            follows it (Inkling). Where they weren't, it isn't taken by a model's name, only where the user names the renderer.
    """

    name: str
    models: tuple[str, ...]
    fixed: Arguments = field(default_factory=dict)
    switch: str | None = None
    thinking: Mapping[bool, Arguments] = field(default_factory=dict)
    variables: Mapping[str, Callable[[Any], Arguments | None]] = field(default_factory=dict)
    dated: str | None = None
    vocabulary: str | None = None
    compared: bool = True

    @property
    def upstream(self) -> str:
        """Name of upstream's class."""
        return self.name.partition(".")[0]


def _one_of(argument: str, *values: Any) -> Callable[[Any], Arguments | None]:
    return lambda value: {argument: value} if value in values else None


def _flag(on: Arguments, off: Arguments) -> Callable[[Any], Arguments | None]:
    return lambda value: (on if value else off) if isinstance(value, bool) else None


EFFORTS = {"none": 0.0, "minimal": 0.1, "low": 0.2, "medium": 0.7, "high": 0.9, "max": 0.99}


def _effort(value: Any) -> Arguments | None:
    """Inkling's effort goes to the render, not to the constructor: a word of the template, or a number from 0 to 0.99 with two
    digits, as upstream would round others."""
    number = EFFORTS.get(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 0.99:
        return None
    return {"effort": float(number)} if number == round(number, 2) else None


def _hub(organization: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{organization}/{name}" for name in names)


_QWEN3_SWITCH: Mapping[bool, Arguments] = {True: {}, False: {"prefix_empty_thinking": True}}
_QWEN35_SWITCH: Mapping[bool, Arguments] = {True: {"enable_thinking": True}, False: {"enable_thinking": False}}
_SUPPORT_SWITCH: Mapping[bool, Arguments] = {True: {}, False: {"support_thinking": False}}
_V4_SWITCH: Mapping[bool, Arguments] = {True: {"thinking_mode": "thinking"}, False: {"thinking_mode": "chat"}}
_CLEAR = _flag({"clear_thinking": True}, {"clear_thinking": False})

FAMILIES: tuple[Family, ...] = (
    Family(
        "Qwen3",
        _hub("Qwen", *(f"Qwen3-{size}" for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B"))),
        switch="enable_thinking",
        thinking=_QWEN3_SWITCH,
    ),
    Family(
        "Qwen3.instruct",
        _hub("Qwen", *(f"Qwen3-{size}-Instruct-2507" for size in ("4B", "30B-A3B", "235B-A22B"))),
        {"support_thinking": False},
    ),
    Family(
        "Qwen35",
        _hub("Qwen", *(f"Qwen3.5-{size}" for size in ("4B", "9B", "27B", "35B-A3B", "122B-A10B", "397B-A17B"))),
        switch="enable_thinking",
        thinking=_QWEN35_SWITCH,
    ),
    Family(
        "Qwen35.disable_thinking",
        _hub("Qwen", "Qwen3.5-0.8B", "Qwen3.5-2B"),
        {"enable_thinking": False},
        switch="enable_thinking",
        thinking=_QWEN35_SWITCH,
    ),
    Family(
        "Qwen38",
        _hub("Qwen", "Qwen3.8-27B"),
        switch="enable_thinking",
        thinking=_SUPPORT_SWITCH,
        variables={"reasoning_effort": _one_of("reasoning_effort", "low", "medium", "xhigh")},
    ),
    Family("DeepSeekV3", _hub("deepseek-ai", "DeepSeek-V3")),
    Family("DeepSeekR1", _hub("deepseek-ai", "DeepSeek-R1"), compared=False),
    Family(
        "DeepSeekV31",
        _hub("deepseek-ai", "DeepSeek-V3.1"),
        switch="thinking",
        thinking={True: {"thinking": True}, False: {"thinking": False}},
    ),
    Family(
        "DeepSeekV4",
        _hub("deepseek-ai", "DeepSeek-V4-Flash", "DeepSeek-V4-Pro"),
        switch="thinking",
        thinking=_V4_SWITCH,
        variables={"reasoning_effort": _one_of("reasoning_effort", "high", "max")},
    ),
    Family(
        "DeepSeekV41",
        _hub("deepseek-ai", "DeepSeek-V4.1-Flash", "DeepSeek-V4.1-Flash-1017"),
        switch="thinking",
        thinking=_V4_SWITCH,
        variables={"reasoning_effort": _one_of("reasoning_effort", "low", "high", "max", *range(1, 101))},
        compared=False,
    ),
    Family(
        "Glm52",
        _hub("zai-org", "GLM-5.2"),
        variables={"reasoning_effort": _one_of("reasoning_effort", "high", "max"), "clear_thinking": _CLEAR},
    ),
    Family(
        "Glm53",
        _hub("zai-org", "GLM-5.3"),
        variables={"reasoning_effort": _one_of("reasoning_effort", "low", "high", "max"), "clear_thinking": _CLEAR},
        compared=False,
    ),
    Family(
        "Glm53Flash",
        _hub("zai-org", "GLM-5.3-Flash"),
        variables={"reasoning_effort": _one_of("reasoning_effort", "low", "high", "max"), "clear_thinking": _CLEAR},
        compared=False,
    ),
    Family("KimiK2", _hub("moonshotai", "Kimi-K2-Thinking"), compared=False),
    Family(
        "KimiK25",
        _hub("moonshotai", "Kimi-K2.5", "Kimi-K2.6"),
        switch="thinking",
        thinking=_SUPPORT_SWITCH,
        variables={"preserve_thinking": _flag({"strip_thinking_from_history": False}, {"strip_thinking_from_history": True})},
    ),
    Family(
        "GptOss",
        _hub("openai", "gpt-oss-20b", "gpt-oss-120b"),
        variables={
            "reasoning_effort": _one_of("reasoning_effort", "low", "medium", "high"),
            "model_identity": lambda value: {"model_identity": value} if isinstance(value, str) else None,
        },
        dated="current_date",
    ),
    Family(
        "Nemotron3",
        _hub("nvidia", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NVIDIA-Nemotron-3-Super-120B-A12B-BF16"),
        switch="enable_thinking",
        thinking=_SUPPORT_SWITCH,
        variables={
            "truncate_history_thinking": _flag({"strip_thinking_from_history": True}, {"strip_thinking_from_history": False}),
        },
    ),
    Family(
        "v0",
        _hub("thinkingmachines", "Inkling", "Inkling-Small"),
        {"effort": EFFORTS["high"]},
        variables={"reasoning_effort": _effort},
        vocabulary="O200kBaseChatTokenizer",
    ),
)

BY_NAME: Mapping[str, Family] = {family.name: family for family in FAMILIES}
BY_MODEL: Mapping[str, Family] = {model: family for family in FAMILIES for model in family.models}
