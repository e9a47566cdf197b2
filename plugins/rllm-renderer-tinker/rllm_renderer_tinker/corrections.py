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

Messages = list[dict[str, Any]]
Rewrite = Callable[[Messages], Messages]

INDEX = "_index"
"""Key that carries a message's position through upstream, which copies messages and puts others before them; -1 for those that
declare tools where no system text was given."""

MERGED = "_merged"
"""Key of a message that stands for several: how many."""


@dataclass(frozen=True)
class Correction:
    """One row.

    Args:
        families: Names of renderers without the suffix of a variant.
        why: What the official template does.
        rewrite: Messages in normal form to messages in normal form, before tools are declared.
        finish: The same, once the messages that declare tools stand before them.
        tools_in_bridge: False where tools are part of the first turn alone and upstream can't render them: then a bridge needs
            no tools, although a render does.
        attributes: What is different on the twin of upstream's renderer that this adapter works with.
        with_tools: Attributes that change while tools are declared: from their value to their value.
        only: Suffixes of the variants that the row is for; empty for all.
        but: Suffixes of the variants that it isn't for.
    """

    families: tuple[str, ...]
    why: str
    rewrite: Rewrite | None = None
    finish: Rewrite | None = None
    tools_in_bridge: bool = True
    attributes: Mapping[str, Any] = field(default_factory=dict)
    with_tools: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def applies_to(self, name: str) -> bool:
        """Whether this is a row of the renderer of this name."""
        base = family(name)
        variant = name.removeprefix(base)
        return base in self.families and (not self.only or variant in self.only) and variant not in self.but


def glue_results(separator: str) -> Rewrite:
    """Consecutive tool results as one message, their contents joined by what the template puts between them."""

    def rewrite(messages: Messages) -> Messages:
        out: Messages = []
        for message in messages:
            last = out[-1] if out else None
            if last is not None and message["role"] == last["role"] == "tool" and _is_text(message) and _is_text(last):
                merged = last.get(MERGED, 1) + 1
                out[-1] = {**last, "content": last["content"] + separator + message["content"], MERGED: merged}
            else:
                out.append(message)
        return out

    return rewrite


def trim(*roles: str) -> Rewrite:
    """Text of these roles without white space at its edges."""

    def rewrite(messages: Messages) -> Messages:
        return [{**m, "content": m["content"].strip()} if m["role"] in roles and _is_text(m) else m for m in messages]

    return rewrite


def spoken(turn: turns.Turn, *, reasoning: bool = False) -> Rewrite:
    """Assistant messages as the finished text of their turn, with their calls; with ``reasoning`` upstream writes its block."""

    def rewrite(messages: Messages) -> Messages:
        query = _last_query(messages)
        out = []
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and _is_text(message):
                text = turn(message, index > query, index == len(messages) - 1)
                drop = ("tool_calls",) if reasoning else ("tool_calls", "reasoning_content")
                message = {**{key: value for key, value in message.items() if key not in drop}, "content": text}
            out.append(message)
        return out

    return rewrite


def nemotron_turns(*, preserved: bool) -> Rewrite:
    """Assistant messages as Nemotron's template writes them; ``preserved`` keeps all reasoning."""

    def rewrite(messages: Messages) -> Messages:
        query = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=-1)
        out = []
        for index, message in enumerate(messages):
            ours = message["role"] == "assistant" and _is_text(message)
            out.append(turns.nemotron3(message, preserved or index > query) if ours else message)
        return out

    return rewrite


def as_parts(*roles: str) -> Rewrite:
    """Text of these roles as a list of one part."""

    def rewrite(messages: Messages) -> Messages:
        return [
            {**m, "content": [{"type": "text", "text": m["content"]}]} if m["role"] in roles and _is_text(m) else m
            for m in messages
        ]

    return rewrite


def _last_query(messages: Messages) -> int:
    """Index of the last user message that isn't a tool result in disguise, as Qwen's templates look for it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] == "user":
            text = message["content"].strip() if _is_text(message) else ""
            if not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):
                return index
    return len(messages)


def collect_systems(messages: Messages) -> Messages:
    """All system texts as the first message, in their order."""
    systems = [m for m in messages if m["role"] == "system" and _is_text(m)]
    if not systems or messages[0] is systems[-1]:
        return messages
    first = {**systems[0], "content": "\n\n".join(m["content"] for m in systems), MERGED: len(systems)}
    return [first, *(m for m in messages if m["role"] != "system" or not _is_text(m))]


def _is_text(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], str)


class _Blank(str):
    """Nothing, but given: upstream warns of a missing id, and prints nothing in its place."""

    def __bool__(self) -> bool:
        return True


class _Untrimmed(str):
    """Text that keeps its edges where upstream trims it and appends to it, but takes no list of parts."""

    def strip(self, chars: str | None = None, /) -> str:
        return self

    def __add__(self, other: str, /) -> str:
        return _Untrimmed(str(self) + other)


def untrimmed(*roles: str) -> Rewrite:
    """Text of these roles as it is."""

    def rewrite(messages: Messages) -> Messages:
        return [{**m, "content": _Untrimmed(m["content"])} if m["role"] in roles and _is_text(m) else m for m in messages]

    return rewrite


def name_results(name: str, **missing: str) -> Rewrite:
    """The format's neutral name for results without one: what upstream falls back to, with a warning for each message."""

    def rewrite(messages: Messages) -> Messages:
        return [{"name": name, **missing, **m} if m["role"] == "tool" else m for m in messages]

    return rewrite


def drop_reasoning(messages: Messages) -> Messages:
    """No reasoning in any message."""
    return [{key: value for key, value in m.items() if key != "reasoning_content"} for m in messages]


def drop_answered_reasoning(messages: Messages) -> Messages:
    """Reasoning goes once a final answer follows it, in its own turn or later; the last message keeps its own."""
    finals = [i for i, m in enumerate(messages) if m["role"] == "assistant" and not m.get("tool_calls")]
    answered = max(finals, default=-1) if finals[-1:] != [len(messages) - 1] else len(messages) - 1
    return [
        {key: value for key, value in m.items() if key != "reasoning_content"}
        if m["role"] == "assistant" and index <= answered and index < len(messages) - 1
        else m
        for index, m in enumerate(messages)
    ]


def leading_developer(messages: Messages) -> Messages:
    """A developer message at the start as a system message."""
    return [{**m, "role": "system"} if i == 0 and m["role"] == "developer" else m for i, m in enumerate(messages)]


def without_harmony_system(messages: Messages) -> Messages:
    """Without the system message that upstream puts before the developer's when tools are declared."""
    return [m for m in messages if m["role"] != HARMONY_SYSTEM]


def harmony_braces(messages: Messages) -> Messages:
    """Declarations with their brace on the first line."""
    return [
        {**m, "content": m["content"].replace("(_:\n{", "(_: {")} if m["role"] == "developer" and _is_text(m) else m
        for m in messages
    ]


def only_given_system(messages: Messages) -> Messages:
    """Without the system text that upstream puts beside declared tools."""
    return [m for m in messages if not (m["role"] == "system" and m.get(INDEX) == -1)]


def _as_given(messages: Messages) -> Messages:
    return messages


def _say_nothing(messages: Messages) -> None:
    return None


HARMONY_SYSTEM = "_gptoss_internal_system"
CHANNEL_LINE = "\nCalls to these tools must go to the commentary channel: 'functions'."
EFFORTS = ("_low_reasoning", "_medium_reasoning", "_high_reasoning")
QWEN_RESULTS = glue_results("\n</tool_response>\n<tool_response>\n")
PRESERVED = ("_preserve_thinking",)

# fmt: off
CORRECTIONS: tuple[Correction, ...] = (
    Correction(("qwen3_5", "qwen3_8"), "trims every text", trim("user", "system", "assistant", "tool")),
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
    Correction(("gpt_oss",), "prints declarations with their brace on the first line", finish=harmony_braces),
    Correction(("gpt_oss",), "names the channel of tools in its one system message", finish=without_harmony_system,
               with_tools={"system_prompt_content": lambda text: text + CHANNEL_LINE}, only=EFFORTS),
    Correction(("gpt_oss",), "has a system message besides the developer's", only=EFFORTS,
               attributes={"_warn_if_user_system_message": _say_nothing}),
    Correction(("gpt_oss",), "knows results by a name", name_results("unknown")),
    Correction(("kimi_k2", "kimi_k25", "kimi_k26"), "knows results by name and id",
               name_results("tool", tool_call_id=_Blank())),
    Correction(("kimi_k26",), "has no reasoning where it is off", drop_reasoning, only=("_disable_thinking",)),
    Correction(("kimi_k26",), "adds no system text of its own", finish=only_given_system,
               attributes={"_ensure_system_message": _as_given}),
    Correction(("deepseekv3",), "closes a turn of calls", spoken(turns.deepseek_v3_1)),
)
# fmt: on


def rows_for(name: str, table: Sequence[Correction] = CORRECTIONS) -> tuple[Correction, ...]:
    """The rows of a renderer, in the order of the table."""
    return tuple(row for row in table if row.applies_to(name))


def rewritten(messages: Messages, rows: Sequence[Correction]) -> Messages:
    """The messages before tools are declared."""
    for row in rows:
        if row.rewrite is not None:
            messages = row.rewrite(messages)
    return messages


def finished(messages: Messages, rows: Sequence[Correction]) -> Messages:
    """The messages as upstream shall see them."""
    for row in rows:
        if row.finish is not None:
            messages = row.finish(messages)
    return messages
