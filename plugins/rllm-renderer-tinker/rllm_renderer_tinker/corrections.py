"""Where upstream's render differs from the official template, and what is rewritten before upstream sees it.

One table of one-line rows, used in render and bridge alike. A row says what the template does; it is harmless where upstream
does the same already (a single result stays as it is, trimmed text isn't trimmed again), so that one table serves all
supported versions. ``tests/tinker/test_corrections.py`` shows for each row, on the installed version, whether the ids would
equal the template without it, and that they do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import turns
from .catalog import family
from .rewrites import (
    Blank,
    Rewrite,
    as_parts,
    closing_empty,
    collect_systems,
    drop_answered_reasoning,
    drop_reasoning,
    glue_results,
    harmony_braces,
    inline_reasoning,
    leading_developer,
    name_results,
    needs_query,
    nemotron_turns,
    only_given_system,
    only_roles,
    refuse_names,
    spoken,
    trim,
    untrimmed,
    without_harmony_system,
)


@dataclass(frozen=True)
class Correction:
    """One row.

    Args:
        families: Names of renderers without the suffix of a variant.
        why: What the official template does.
        rewrite: Messages in normal form to messages in normal form, before tools are declared.
        finish: The same, once the messages that declare tools stand before them.
        results_as_given: True where a result's name shows only where the caller gave one: then the core fills in none.
        letters_in_tools: True where upstream escapes letters beyond ASCII in declarations.
        changes: Attributes that change on the twin of upstream's renderer that this adapter works with, by what makes the
            twin's value of upstream's.
        with_tools: The same, while tools are declared.
        harmony: True where completions are harmony's, of which a render shows but few forms; others are learned.
        only: Suffixes of the variants that the row is for; empty for all.
        but: Suffixes of the variants that it isn't for.
    """

    families: tuple[str, ...]
    why: str
    rewrite: Rewrite | None = None
    finish: Rewrite | None = None
    results_as_given: bool = False
    letters_in_tools: bool = False
    changes: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    with_tools: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    harmony: bool = False
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def applies_to(self, name: str) -> bool:
        """Whether this is a row of the renderer of this name."""
        base = family(name)
        variant = name.removeprefix(base)
        return base in self.families and (not self.only or variant in self.only) and variant not in self.but


CHANNEL_LINE = "\nCalls to these tools must go to the commentary channel: 'functions'."
EFFORTS = ("_low_reasoning", "_medium_reasoning", "_high_reasoning")
QWEN_RESULTS = glue_results("\n</tool_response>\n<tool_response>\n")
PRESERVED = ("_preserve_thinking",)
STANDARD_ROLES = ("qwen3", "qwen3_instruct", "qwen3_5", "qwen3_8", "deepseekv3")

# fmt: off
CORRECTIONS: tuple[Correction, ...] = (
    Correction(STANDARD_ROLES, "has no other roles", only_roles()),
    Correction(("gpt_oss",), "has no other roles", only_roles("developer")),
    Correction(("kimi_k2", "kimi_k25", "kimi_k26"), "writes the name of a message for its role", refuse_names),
    Correction(("qwen3_5", "qwen3_8"), "refuses a conversation without a user", needs_query),
    Correction(("qwen3_5", "qwen3_8"), "trims every text", trim("user", "system", "assistant", "tool")),
    Correction(("qwen3", "qwen3_5"), "reads reasoning that the text has in it", inline_reasoning()),
    Correction(("qwen3", "qwen3_instruct", "qwen3_5", "qwen3_8"), "puts parallel results into one turn", QWEN_RESULTS),
    Correction(("nemotron3", "nemotron3_ultra"), "puts parallel results into one turn", QWEN_RESULTS),
    Correction(("nemotron3",), "trims no user's text", finish=as_parts("user", "system", "tool"), but=("_low_thinking",)),
    Correction(("nemotron3",), "trims no user's text", finish=untrimmed("user", "system", "tool"), only=("_low_thinking",)),
    Correction(("llama3",), "trims every text", trim("user", "system", "assistant")),
    Correction(("llama3",), "has no reasoning", drop_reasoning),
    Correction(("qwen3",), "keeps reasoning behind the last query; no newline before lone calls", spoken(turns.qwen3)),
    Correction(("qwen3_instruct",), "puts no newline before calls without text", spoken(turns.qwen3_instruct)),
    Correction(("qwen3_5",), "keeps reasoning behind the last query", spoken(turns.qwen3_5), but=PRESERVED),
    Correction(("qwen3_5",), "has a block in every turn", spoken(turns.qwen3_5_preserved), only=PRESERVED),
    Correction(("qwen3_8",), "prints arguments unescaped", spoken(turns.qwen3_8, reasoning=True)),
    Correction(("nemotron3",), "prints arguments unescaped", nemotron_turns(preserved=False), but=PRESERVED),
    Correction(("nemotron3",), "prints arguments unescaped", nemotron_turns(preserved=True), only=PRESERVED),
    Correction(("deepseekv3",), "collects system texts at the start", collect_systems),
    Correction(("gpt_oss",), "reads a leading developer message like a system message", leading_developer),
    Correction(("gpt_oss",), "drops reasoning that an answer follows", drop_answered_reasoning),
    Correction(("gpt_oss",), "prints declarations with their brace on the first line", finish=harmony_braces()),
    Correction(("gpt_oss",), "names the channel of tools in its one system message", finish=without_harmony_system,
               with_tools={"system_prompt_content": lambda text: text + CHANNEL_LINE}, only=EFFORTS),
    Correction(("gpt_oss",), "has a system message besides the developer's", only=EFFORTS,
               changes={"_warn_if_user_system_message": lambda _: lambda messages: None}),
    Correction(("gpt_oss",), "knows results by a name", name_results("unknown")),
    Correction(("gpt_oss",), "samples a call's header in more orders than it shows", harmony=True),
    Correction(("kimi_k2", "kimi_k25", "kimi_k26"), "knows results by name and id",
               name_results("tool", tool_call_id=Blank()), results_as_given=True),
    Correction(("kimi_k26",), "has no reasoning where it is off", drop_reasoning, only=("_disable_thinking",)),
    Correction(("kimi_k26",), "adds no system text of its own", finish=only_given_system,
               changes={"_ensure_system_message": lambda _: lambda messages: messages}),
    Correction(("deepseekv3",), "closes a turn without text too", changes={"render_message": closing_empty}),
    Correction(("deepseekv3",), "needs a user: its opener stands in the user's turn", needs_query),
    Correction(("nemotron3", "nemotron3_ultra", "gpt_oss"), "writes letters of any script in tools", letters_in_tools=True),
    Correction(("deepseekv3",), "closes a turn of calls", spoken(turns.deepseek_v3_1)),
)
# fmt: on


def rows_for(name: str, table: Sequence[Correction] = CORRECTIONS) -> tuple[Correction, ...]:
    """The rows of a renderer, in the order of the table."""
    return tuple(row for row in table if row.applies_to(name))
