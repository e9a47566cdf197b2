"""Where the cookbook's renders differ from the official template: rows like the tinker plugin's, for the cookbook's names.

Renderers that the cookbook makes from tinker_cookbook's own have those rows too, under whatever name it gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rllm_renderer_tinker.corrections import CORRECTIONS as TINKER
from rllm_renderer_tinker.corrections import QWEN_RESULTS, Correction, rows_for
from rllm_renderer_tinker.rewrites import (
    Messages,
    glue_results,
    inline_reasoning,
    needs_query,
    only_roles,
    spoken,
    think_as_text,
    trim,
)

from .models import qwen


def first_system_alone(messages: Messages) -> Messages:
    """The messages without a system message behind the first message, which the template leaves out."""
    return [message for index, message in enumerate(messages) if index == 0 or message["role"] != "system"]


def _like(renderer: str, *names: str) -> Iterator[Correction]:
    """The tinker plugin's rows of a renderer, for renderers of the cookbook's that are made from it."""
    for row in rows_for(renderer, TINKER):
        yield replace(row, families=names, only=(), but=())


QWEN3_5 = ("qwen3_5_interleaved", "qwen3_5_disable_thinking_interleaved")
QWEN3_6 = ("qwen3_6", "qwen3_6_interleaved", "qwen3_6_disable_thinking_interleaved")
QWEN3_8 = ("qwen3_8_interleaved", "qwen3_8_disable_thinking_interleaved")
KEEPING = ("qwen3_6_preserved", "qwen3_8", "qwen3_8_preserved")
KIMI = ("kimi_k25_interleaved", "kimi_k26_interleaved", "kimi_k27_code", "kimi_k27_code_preserved")
TRIMMED = (*QWEN3_6, *QWEN3_8, *KEEPING)
PRESERVED = ("_preserve_thinking",)

CORRECTIONS: tuple[Correction, ...] = (
    *TINKER,
    *_like("qwen3_5", *QWEN3_5),
    *_like("kimi_k26", *KIMI),
    Correction((*TRIMMED, "minimax_m2"), "has no other roles", only_roles()),
    Correction(TRIMMED, "refuses a conversation without a user", needs_query),
    Correction(TRIMMED, "trims every text", trim("user", "system", "assistant", "tool")),
    Correction((*QWEN3_6, "qwen3_6_preserved"), "reads reasoning that the text has in it", inline_reasoning()),
    Correction(("minimax_m3",), "takes <think> for text", finish=think_as_text()),
    Correction(
        ("minimax_m3",),
        "reads reasoning that the text has in it",
        inline_reasoning("<mm:think>", "</mm:think>", both_edges=True),
    ),
    Correction(TRIMMED, "puts parallel results into one turn", QWEN_RESULTS),
    Correction((*QWEN3_6, *QWEN3_8), "has a thought behind the last query; JSON arguments", spoken(qwen.turn), but=PRESERVED),
    Correction(KEEPING, "has a thought in every turn; JSON arguments", spoken(qwen.preserved_turn)),
    Correction(("qwen3_6",), "has a thought in every turn; JSON arguments", spoken(qwen.preserved_turn), only=PRESERVED),
    Correction(("minimax_m2", "minimax_m3"), "puts parallel results into one turn", glue_results("</response>\n<response>")),
    Correction(("minimax_m2",), "has one system message, the first", first_system_alone),
)
