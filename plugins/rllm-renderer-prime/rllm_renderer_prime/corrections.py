"""Where an upstream renderer differs from the official template: one table of rewrites, and one of openers.

A rewrite changes messages before upstream sees them, in render and bridge alike, so that it writes what the template writes.
An opener changes the last ids, which are the same for each prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.types import Message

from .families import Variant

Numbered = tuple[int | None, dict[str, Any]]
"""A message with its index in the caller's list; ``None`` where it stands for several of them, or for none."""

Rewrite = Callable[[list[Numbered]], list[Numbered]]


@dataclass(frozen=True)
class Correction:
    """One row: ``rewrite`` for the ``families``, where ``when`` is true of the variant, in renders (and in a ``scope`` of
    ``"bridge"`` or ``"both"``, in bridges)."""

    families: tuple[str, ...]
    rewrite: Rewrite
    why: str
    when: Callable[[Variant], bool] = lambda variant: True
    scope: str = "render"


def corrections_for(variant: Variant, scope: str) -> list[Rewrite]:
    """The rewrites that this variant needs, in order; mostly none."""
    return [
        row.rewrite
        for row in CORRECTIONS
        if variant.family in row.families and row.scope in ("both", scope) and row.when(variant)
    ]


# Rewrites


def _by_message(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Rewrite:
    """Each message by itself."""
    return lambda messages: [(index, change(message)) for index, message in messages]


def _join_results(between: str) -> Rewrite:
    """Results in a row become one, with the markers ``between`` them that upstream would write otherwise, or not at all."""

    def rewrite(messages: list[Numbered]) -> list[Numbered]:
        out: list[Numbered] = []
        for index, message in messages:
            if message["role"] == "tool" and out and out[-1][1]["role"] == "tool":
                before = out[-1][1]
                out[-1] = None, {**before, "content": before["content"] + between + message["content"]}
            else:
                out.append((index, message))
        return out

    return rewrite


def _calls_as_text(open_calls: str, one: Callable[[str, str], str], between: str, close_calls: str) -> Rewrite:
    """Calls of a turn that has several, with the text beside them, become the text that the template writes for them."""

    def changed(message: dict[str, Any]) -> dict[str, Any]:
        calls = message.get("tool_calls") or ()
        if len(calls) < 2:
            return message
        written = between.join(one(call["function"]["name"], call["function"]["arguments"]) for call in calls)
        # reasoning_content is set, as upstream would look for reasoning in the text otherwise.
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        return {"reasoning_content": "", **rest, "content": message["content"] + open_calls + written + close_calls}

    return _by_message(changed)


def _only_beside_text(rewrite: Rewrite) -> Rewrite:
    return lambda messages: [rewrite([pair])[0] if pair[1]["content"].strip() else pair for pair in messages]


def _deepseek_call(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def _glm45_call(name: str, arguments: str) -> str:
    def value(each: Any) -> str:
        return each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)

    pairs = json.loads(arguments).items()
    written = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value(each)}</arg_value>\n" for key, each in pairs)
    return f"<tool_call>{name}\n{written}</tool_call>"


def _system_first(messages: list[Numbered]) -> list[Numbered]:
    first = [pair for pair in messages if pair[1]["role"] == "system"]
    return [*first, *(pair for pair in messages if pair[1]["role"] != "system")]


def _forget_old_wrappers(messages: list[Numbered]) -> list[Numbered]:
    """Gives turns before the last query a reasoning that the template drops; without any, upstream writes an empty block."""
    last = max((at for at, (_, message) in enumerate(messages) if is_query(message)), default=-1)
    return [
        (index, {**message, "reasoning_content": "-"})
        if at < last and message["role"] == "assistant" and not message.get("reasoning_content") and _no_inline(message)
        else (index, message)
        for at, (index, message) in enumerate(messages)
    ]


def is_query(message: Message) -> bool:
    """Whether it is a user's message that isn't a tool result in disguise, as Qwen's templates look for it."""
    if message["role"] != "user" or not isinstance(message["content"], str):
        return bool(message["role"] == "user")
    text = message["content"].strip()
    return not (text.startswith("<tool_response>") and text.endswith("</tool_response>"))


def _no_inline(message: dict[str, Any]) -> bool:
    return "</think>" not in message["content"]


def _drop_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "reasoning_content": ""} if message.get("reasoning_content") else message


def _never_last(messages: list[Numbered]) -> list[Numbered]:
    """Ends with a message that prints nothing: upstream writes a thinking block into the last message alone."""
    if not messages or messages[-1][1]["role"] != "assistant":
        return messages
    return [*messages, (None, {"role": "nothing", "content": ""})]


class _Untrimmed(str):
    """Text that keeps its edges where upstream trims it."""

    def strip(self, chars: str | None = None, /) -> str:
        return self


def _untrimmed_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Reasoning as it is, that which the text has in it too."""
    reasoning, content = message.get("reasoning_content"), message["content"]
    if reasoning is None and message["role"] == "assistant" and "</think>" in content:
        reasoning = content.split("</think>")[0].split("<think>")[-1]
        message = {**message, "content": content.split("</think>")[-1], "reasoning_content": reasoning}
    return {**message, "reasoning_content": _Untrimmed(reasoning)} if reasoning else message


def _text_is_text(message: dict[str, Any]) -> dict[str, Any]:
    """Sets the reasoning of each turn, as upstream would look for it in the text otherwise."""
    return {"reasoning_content": "", **message} if message["role"] == "assistant" else message


def _last_close_counts(message: dict[str, Any]) -> dict[str, Any]:
    """Of ``A </think> B </think> C`` the template keeps ``A`` as reasoning and ``C`` as content, upstream ``B </think> C``."""
    if message["role"] != "assistant" or message["content"].count("</think>") < 2 or "reasoning_content" in message:
        return message
    reasoning, *_, content = message["content"].split("</think>")
    return {**message, "content": f"{reasoning}</think>{content}"}


def _not_thinking(variant: Variant) -> bool:
    return variant.thinking is False


CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        ("deepseek-v3",),
        _join_results("<｜tool▁output▁end｜>\n<｜tool▁output▁begin｜>"),
        "the template writes a newline between parallel results",
        scope="both",
    ),
    Correction(
        ("deepseek-v3", "deepseek-r1"),
        _calls_as_text("<｜tool▁calls▁begin｜>", _deepseek_call, "\n", "<｜tool▁calls▁end｜>"),
        "the template writes a newline between parallel calls",
    ),
    Correction(
        ("deepseek-v3", "deepseek-r1"),
        _system_first,
        "the template moves every system message to the beginning; upstream makes users of the later ones",
    ),
    Correction(
        ("deepseek-v4",),
        _join_results("</tool_result>\n\n<tool_result>"),
        "upstream bridges one result at most, as it can't know the order of calls; here results are in that order already",
        scope="bridge",
    ),
    Correction(
        ("glm-5.1",),
        _by_message(_untrimmed_reasoning),
        "the template trims no reasoning",
    ),
    Correction(
        ("qwen3", "qwen3.5", "qwen3.6", "glm-4.5", "glm-5", "minimax-m2"),
        _by_message(_last_close_counts),
        "the template cuts the text of an answer at its last close of reasoning, upstream at its first",
        when=lambda variant: not variant.unthinking_qwen3,
    ),
    Correction(
        ("kimi-k2.5",),
        _by_message(_text_is_text),
        "the template reads no reasoning out of the text; upstream drops it there",
    ),
    Correction(
        ("glm-4.5",),
        _only_beside_text(_calls_as_text("\n", _glm45_call, "\n", "")),
        "the template writes a newline between parallel calls beside text too",
    ),
    Correction(
        ("qwen3.5", "qwen3.6"),
        _forget_old_wrappers,
        "with thinking off the template drops the empty thinking block of old turns; upstream keeps it on purpose",
        when=lambda variant: _not_thinking(variant) and not variant.fields.get("preserve_thinking"),
    ),
    Correction(
        ("qwen3",),
        _by_message(_drop_reasoning),
        "the template of Instruct-2507 has no reasoning",
        when=lambda variant: variant.unthinking_qwen3,
    ),
    Correction(
        ("qwen3",),
        _by_message(_text_is_text),
        "the template of Instruct-2507 reads no reasoning out of the text",
        when=lambda variant: variant.unthinking_qwen3,
    ),
    Correction(
        ("qwen3",),
        _never_last,
        "the template of Instruct-2507 writes no empty thinking block into a last assistant message",
        when=lambda variant: variant.unthinking_qwen3,
    ),
    Correction(
        ("kimi-k2.5",),
        _by_message(_drop_reasoning),
        "with thinking off the template of Kimi-K2.6 drops the reasoning of the current turn too, that of K2.5 doesn't",
        when=lambda variant: (
            _not_thinking(variant)
            and (variant.model.endswith("Kimi-K2.6") or (not variant.model and "preserve_thinking" in variant.template))
        ),
    ),
)


# Openers


@dataclass(frozen=True)
class Opener:
    """How upstream's opener of the next turn becomes the template's: so many ids go, these ids come.

    ``after_tool`` is true where that holds only for prompts that end with a tool result.
    """

    cut: int = 0
    add: tuple[int, ...] = ()
    after_tool: bool = False


def opener_for(variant: Variant, encode: Callable[[str], Sequence[int]]) -> Opener | None:
    """The correction of this variant's opener, or ``None``."""
    if variant.family == "gpt-oss":
        # Harmony and the template end with <|start|>assistant; upstream chooses the analysis channel for the model.
        return Opener(cut=len(encode("<|channel|>analysis<|message|>")))
    if variant.family == "deepseek-r1":
        # The model goes on right behind a tool's output; upstream opens the reasoning there as well.
        return Opener(cut=len(encode("<think>\n")), after_tool=True)
    if variant.opens_thinking:
        return Opener(add=tuple(encode("<think>\n")))
    if variant.family == "qwen3" and _not_thinking(variant):
        # Upstream's own switch also writes the block into each old turn, which the template doesn't: see config_for.
        return Opener(add=tuple(encode("<think>\n\n</think>\n\n")))
    return None
