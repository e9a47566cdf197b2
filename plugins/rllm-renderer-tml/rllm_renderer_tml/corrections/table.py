"""Where upstream's render differs from the official template, and what is changed before upstream sees the messages.

One table, a row a difference, used in render and bridge alike. That the ids are the template's with it, ``tests/tml`` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..conversion import as_json
from . import calls, declarations, refusals, texts
from .context import Context, Row


@dataclass(frozen=True)
class Correction:
    """One row.

    Args:
        renderers: Names of upstream's classes; with a variant behind a dot, of that variant alone.
        why: What the official template does.
        rewrite: Messages in normal form to messages for upstream.
        declare: Tools as given to tools for upstream.
        finish: Ids to ids, once every placeholder is replaced.
        refuses_tools: Upstream has no declarations in this format.
        closed_as_trained: Whether a conversation that ends in an assistant's turn is rendered as for training.
        opener: Upstream's name of the control token that the template opens an assistant's turn with, where upstream leaves
            it to the model.
        declares: The name that the system has where it declares tools.
        results_as_given: A result's name shows only where the caller gave one: then the core fills in none.
        arguments: Arguments of upstream's constructor.
    """

    renderers: tuple[str, ...]
    why: str
    rewrite: Row | None = None
    declare: Callable[[Sequence[Any], Context], Sequence[Any]] | None = None
    finish: Callable[[list[int], Context], list[int]] | None = None
    refuses_tools: bool = False
    closed_as_trained: bool = False
    opener: str | None = None
    declares: str | None = None
    results_as_given: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def applies_to(self, name: str) -> bool:
        """Whether this is a row of the renderer of this name."""
        return name in self.renderers or name.partition(".")[0] in self.renderers


QWEN = ("Qwen3", "Qwen35", "Qwen38")
DEEPSEEK_V3 = ("DeepSeekV3", "DeepSeekR1", "DeepSeekV31")
V4 = ("DeepSeekV4", "DeepSeekV41")
GLM = ("Glm52", "Glm53", "Glm53Flash")
KIMI = ("KimiK2", "KimiK25")
INKLING = ("v0",)

# fmt: off
CORRECTIONS: tuple[Correction, ...] = (
    Correction((*QWEN, *DEEPSEEK_V3, *GLM, *KIMI, "Nemotron3"), "cuts reasoning out of text", refusals.refuse_inline_reasoning),
    Correction(KIMI, "writes the name of a message for its role", refusals.refuse_names),
    Correction(V4, "reads its markers in a text as control tokens", refusals.refuse_inline_reasoning),
    Correction(DEEPSEEK_V3, "opens an assistant's turn behind a user alone", refusals.refuse_without_user),
    Correction(("Qwen35", "Qwen38"), "refuses a conversation without a user's text", refusals.refuse_without_query),
    Correction(("Qwen35", "Qwen38"), "trims every text", texts.trim("user", "system", "assistant", "tool")),
    Correction(("Qwen3.instruct",), "has no reasoning", texts.drop_reasoning),
    Correction(("Qwen3",), "keeps reasoning behind the last query, of turns with calls too", texts.qwen3_reasoning,
               arguments={"strip_thinking_from_history": False}),
    Correction(("Qwen35", "Qwen38"), "puts a blank line between text and calls", texts.before_calls("\n")),
    Correction(("Nemotron3",), "trims no text but the assistant's, and ends text before a call with a newline", texts.nemotron),
    Correction(("Qwen3",), "prints argument text as it is", calls.json_text()),
    Correction(KIMI, "prints argument text as it is", calls.json_text()),
    Correction(KIMI, "puts a result without a name under its role", texts.unnamed_results, results_as_given=True),
    Correction(DEEPSEEK_V3, "prints argument text as it is", calls.json_text(ascii_only=True)),
    Correction(("GptOss",), "prints arguments as JSON", calls.json_text(canonical=True)),
    Correction(("Qwen35", "Nemotron3"), "prints lists and mappings as JSON, others as Python", calls.printed(calls.python)),
    Correction(("Qwen38", *GLM), "prints arguments as JSON", calls.printed(as_json)),
    Correction(INKLING, "writes a text beside calls, an empty one too", texts.empty_text),
    Correction(INKLING, "prints arguments as compact JSON with its keys in order", calls.sorted_json),
    Correction(V4, "prints numbers as Python does", calls.json_values),
    Correction(("DeepSeekV3",), "has no reasoning", texts.drop_reasoning),
    Correction(("DeepSeekV31",), "has no reasoning in past turns", texts.drop_reasoning),
    Correction(("DeepSeekV3", "DeepSeekR1"), "opens no turn behind a result", refusals.refuse_results),
    Correction(DEEPSEEK_V3, "collects system texts at the start", texts.collect_systems),
    Correction((*QWEN, "Nemotron3"), "gives each message a turn", texts.apart_by_break("User")),
    Correction(V4, "joins users in a row with an empty line", texts.joined_users),
    Correction(V4, "sorts results by their calls", texts.results_by_call),
    Correction(GLM, "gives each message a turn", texts.apart_by_tags("user")),
    Correction(KIMI, "gives each message a turn", texts.apart_by_tags("im_end", "im_user", "user", "im_middle")),
    Correction(("GptOss",), "gives each message a turn", texts.apart_by_tags("end", "start", "user", "message")),
    Correction(("GptOss",), "drops reasoning that an answer follows", texts.drop_answered_reasoning),
    Correction(("GptOss",), "has results without quotation marks, as harmony does", texts.unquoted_results),
    Correction(("GptOss",), "marks arguments as constrained, as harmony does", finish=texts.constrained),
    Correction(("GptOss",), "ends the last turn as it was sampled", closed_as_trained=True),
    Correction(QWEN, "prints a declaration as it is", declare=declarations.printed(declarations.WRAPPED)),
    Correction((*GLM, *V4), "prints a declaration as it is", declare=declarations.printed(declarations.BARE)),
    Correction(KIMI, "prints declarations as they are", declare=declarations.printed(declarations.COMPACT)),
    Correction(INKLING, "opens an assistant's turn", opener="message_model"),
    Correction(INKLING, "declares tools under a name, in compact JSON with its keys in order",
               declare=declarations.printed(declarations.SORTED), declares="tool_declare"),
    Correction(("Nemotron3",), "prints null and booleans of a schema as Python does", declare=declarations.plain_schemas),
    Correction(DEEPSEEK_V3, "knows no tools", refuses_tools=True),
)
# fmt: on


def rows_for(name: str, table: Sequence[Correction] = CORRECTIONS) -> tuple[Correction, ...]:
    """The rows of a renderer, in the order of the table."""
    return tuple(row for row in table if row.applies_to(name))


def constructor_arguments(name: str) -> dict[str, Any]:
    """What upstream's constructor is told by the rows of a renderer."""
    return {key: value for row in rows_for(name) for key, value in row.arguments.items()}
