"""What a user may set, checked against what the template knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.errors import OptionError

THINKING_MODES = ("enabled", "disabled", "adaptive")
MARKER_TEXT = ("plain", "template")


@dataclass(frozen=True)
class Options:
    """Settings of one renderer.

    Args:
        thinking_mode: The template's keyword: ``"enabled"``, ``"disabled"`` or ``"adaptive"``, its default.
        model_identity: The template's keyword: the developer text where no message brings one; ``None`` is its default.
        marker_text: What reserved text in a message becomes: ``"plain"`` is ordinary text, ``"template"`` is what the
            template and tokenizer make of it, the reserved ids.
    """

    thinking_mode: str = "adaptive"
    model_identity: str | None = None
    marker_text: str = "plain"


def read_options(thinking: bool | None = None, keywords: Mapping[str, Any] | None = None) -> Options:
    """Options from ``thinking`` and ``chat_template_kwargs``.

    Raises:
        OptionError: For an unknown keyword, an unknown value, or ``thinking`` against ``thinking_mode``.
    """
    given = dict(keywords or {})
    mode = _choice(given, "thinking_mode", THINKING_MODES)
    marker_text = _choice(given, "marker_text", MARKER_TEXT) or "plain"
    identity = given.pop("model_identity", None)
    if identity is not None and not isinstance(identity, str):
        raise _refused("chat_template_kwargs", f"model_identity must be text, not {type(identity).__name__}", None)
    if given:
        names = ", ".join(sorted(map(str, given)))
        raise _refused(
            "chat_template_kwargs",
            f"MiniMax-M3's template has no keyword {names}",
            "it has thinking_mode and model_identity; this renderer adds marker_text",
        )
    if thinking is not None:
        wanted = "enabled" if thinking else "disabled"
        if mode not in (None, wanted):
            raise _refused("thinking", f"thinking={thinking} contradicts thinking_mode={mode!r}", "set only one of the two")
        mode = wanted
    return Options(mode or "adaptive", identity, marker_text)


def _choice(given: dict[str, Any], key: str, values: tuple[str, ...]) -> str | None:
    if key not in given:
        return None
    value = given.pop(key)
    if value not in values:
        raise _refused("chat_template_kwargs", f"{key}={value!r} isn't known", f"use one of {', '.join(values)}")
    return str(value)


def _refused(option: str, what: str, fix: str | None) -> OptionError:
    return OptionError(f"backend minimax-m3, option {option}: {what}", fix=fix, option=option, backend="minimax-m3")
