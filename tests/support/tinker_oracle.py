"""What tinker's renderers are compared with: for each a model, its official template, and more than the nine shapes."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from typing import Any

import real_tokenizers
import shapes


@dataclass(frozen=True)
class Case:
    """A renderer on the model that it is compared on, with the variables of its template."""

    renderer: str
    model: str
    variables: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.renderer} on {self.model.split('/')[1]}"


NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"
CASES = [
    Case("qwen3", "Qwen/Qwen3-8B"),
    Case("qwen3_disable_thinking", "Qwen/Qwen3-8B", {"enable_thinking": False}),
    Case("qwen3_instruct", "Qwen/Qwen3-4B-Instruct-2507"),
    Case("qwen3_5", "Qwen/Qwen3.5-9B"),
    Case("qwen3_5_disable_thinking", "Qwen/Qwen3.5-9B", {"enable_thinking": False}),
    Case("qwen3_8_xhigh_reasoning", "Qwen/Qwen3.8-27B"),
    Case("deepseekv3", "deepseek-ai/DeepSeek-V3.1"),
    Case("deepseekv3_thinking", "deepseek-ai/DeepSeek-V3.1", {"thinking": True}),
    Case("llama3", "meta-llama/Llama-3.1-8B-Instruct"),
    Case("gpt_oss_medium_reasoning", "openai/gpt-oss-20b"),
    Case("gpt_oss_no_sysprompt", "openai/gpt-oss-20b"),
    Case("kimi_k26", "moonshotai/Kimi-K2.6"),
    Case("nemotron3", NANO),
]
"""Renderers with an official template that can be had offline. GLM-5.3's and DeepSeek-V4.1's can't."""

MORE = [Case("nemotron3", SUPER), Case("qwen3_5", "Qwen/Qwen3.6-35B-A3B")]
"""Further models of the same renderers: for the table, not for each run of the tests."""

VARIANTS = [
    Case("kimi_k26_preserve_thinking", "moonshotai/Kimi-K2.6", {"preserve_thinking": True}),
    Case("kimi_k26_disable_thinking", "moonshotai/Kimi-K2.6", {"thinking": False}),
    Case("nemotron3_preserve_thinking", NANO, {"truncate_history_thinking": False}),
    Case("nemotron3_disable_thinking", NANO, {"enable_thinking": False}),
    Case("nemotron3_low_thinking", SUPER, {"low_effort": True}),
    Case("qwen3_5_preserve_thinking", "Qwen/Qwen3.6-35B-A3B", {"preserve_thinking": True}),
    Case("qwen3_8_disable_thinking", "Qwen/Qwen3.8-27B", {"enable_thinking": False}),
    Case("qwen3_8_low_reasoning", "Qwen/Qwen3.8-27B", {"reasoning_effort": "low"}),
    Case("gpt_oss_high_reasoning", "openai/gpt-oss-20b", {"reasoning_effort": "high"}),
]
"""Further variants of the same families, with the variables of their templates."""

OWN = [Case("glm5_3_max_reasoning", "zai-org/GLM-5.2"), Case("deepseekv4_1", "deepseek-ai/DeepSeek-V4-Flash")]
"""Renderers on a vocabulary that they share with an older model, whose template isn't theirs: compared with themselves."""

ALL = CASES + OWN

EVERYWHERE = {
    "llama3": "upstream leaves out the template's header with dates, on purpose",
    "gpt_oss_no_sysprompt": "the variant without the template's system message",
}
"""Renderers that differ from the template in each conversation."""


def has_template(case: Case) -> bool:
    """Whether there is an official template that the renderer is to equal."""
    return case not in OWN and case.renderer not in EVERYWHERE


def here() -> list[Case]:
    """The cases whose renderer and tokenizer are here."""
    from rllm_renderer_tinker import catalog

    return [case for case in ALL if case.renderer in catalog.builtin_names() and not real_tokenizers.missing(case.model)]


def format_of(case: Case) -> str:
    """What the renderers of one format have in common; variants with and without thinking write the same turns."""
    from rllm_renderer_tinker import catalog

    family = str(catalog.family(case.renderer)).removesuffix("_thinking")
    return {"qwen3_8": "qwen3_5"}.get(family, family)


REASONED = {"role": "assistant", "content": "Two.", "reasoning_content": "One and one."}
REASONED_CALL = {**shapes.ONE_CALL, "reasoning_content": "I look."}
TEXT_AND_CALL = {**shapes.ONE_CALL, "content": "I look it up."}
ARGUMENTS = {"q": "Größe 日本", "deep": True, "n": 3, "x": None, "l": ["é", 1], "o": {"a": "ü"}}
CALL_WITH_ALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "functions.look:0",
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps(ARGUMENTS, ensure_ascii=False)},
        }
    ],
}

HISTORIES: dict[str, list[dict[str, Any]]] = {
    "no system": [shapes.user("ping")],
    "system alone and user": [*shapes.OPENING],
    "reasoned turn, then user": [*shapes.OPENING, REASONED, shapes.user("And three?")],
    "empty reasoning, then user": [*shapes.OPENING, {**REASONED, "reasoning_content": ""}, shapes.user("And three?")],
    "reasoned call and result": [*shapes.OPENING, REASONED_CALL, shapes.ONE],
    "reasoned call, result, answer, user": [*shapes.OPENING, REASONED_CALL, shapes.ONE, REASONED, shapes.user("Sure?")],
    "text beside a call": [*shapes.OPENING, TEXT_AND_CALL, shapes.ONE],
    "reasoned text beside a call": [*shapes.OPENING, {**TEXT_AND_CALL, "reasoning_content": "I look."}, shapes.ONE],
    "all kinds of arguments": [*shapes.OPENING, CALL_WITH_ALL, shapes.ONE],
    "two reasoned calls in a row": [*shapes.OPENING, REASONED_CALL, shapes.ONE, REASONED_CALL, shapes.ONE],
    "white space at the edges": [shapes.user(" ping "), {"role": "assistant", "content": " pong \n"}, shapes.user("\n ")],
}
"""Conversations besides those of the shapes, each ending where an assistant would speak."""

CLOSED: dict[str, list[dict[str, Any]]] = {
    "ends in text": [*shapes.OPENING, shapes.TEXT],
    "ends in a reasoned turn": [*shapes.OPENING, REASONED],
    "ends in a call": [*shapes.OPENING, REASONED_CALL],
    "ends in an answer to a result": [*shapes.OPENING, REASONED_CALL, shapes.ONE, REASONED],
}
"""Conversations that end in an assistant's turn, rendered without an opener."""


@functools.cache
def tokenizer(model: str) -> Any:
    return real_tokenizers.load(model)


def reference(case: Case) -> shapes.TextOf:
    """The official text of a conversation; harmony's where the template differs from what serves (see ``_harmony``).

    Without a template of its own, the renderer's text: decoded, which is exact for ids that were encoded from text.
    """
    loaded = tokenizer(case.model)
    if case in OWN:
        raise LookupError(f"no official template of {case.renderer} can be had offline")
    if case.model.startswith("deepseek-ai/"):
        return _model_card(shapes.template_text(loaded, **case.variables))
    text_of = shapes.template_text(loaded, **case.variables)
    if case.model.startswith("openai/"):
        return _harmony(text_of)
    if case.model.startswith("moonshotai/"):
        return _with_typescript(loaded, case.variables)
    return text_of


def _harmony(text_of: shapes.TextOf) -> shapes.TextOf:
    """The template quotes results and leaves ``<|constrain|>`` out; harmony, which serves gpt-oss, does neither."""

    def render(messages: list[dict[str, Any]], tools: Any, opener: bool) -> str:
        if any(message["role"] == "system" for message in messages[1:]):
            raise ValueError("the template drops a later system message")
        if any(len(message.get("tool_calls", ())) > 1 for message in messages):
            raise ValueError("the template prints one call")
        messages = [{("thinking" if k == "reasoning_content" and v else k): v for k, v in m.items()} for m in messages]
        text = text_of(messages, tools, opener)
        text = text.replace("<|channel|>commentary json<|message|>", "<|channel|>commentary <|constrain|>json<|message|>")
        return re.sub(
            r"(<\|start\|>functions\.\w+ to=assistant<\|channel\|>commentary<\|message\|>)(\".*?\")(?=<\|end\|>)",
            lambda found: found.group(1) + json.loads(found.group(2)),
            text,
        )

    return render


CARD = """

## Tools
You have access to the following tools:

{tools}

IMPORTANT: ALWAYS adhere to this exact format for tool use:
<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜><｜tool▁calls▁end｜>

Where:
- `tool_call_name` must be an exact match to one of the available tools
- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema
- For multiple tool calls, chain them directly without separators or spaces"""
"""How DeepSeek V3.1's model card has tools declared; the template knows no tools."""


def _model_card(text_of: shapes.TextOf) -> shapes.TextOf:
    def render(messages: list[dict[str, Any]], tools: Any, opener: bool) -> str:
        if tools:
            functions = [tool["function"] for tool in tools]
            texts = [
                f"### {each['name']}\nDescription: {each['description']}\n\nParameters: {json.dumps(each['parameters'])}"
                for each in functions
            ]
            declared = CARD.format(tools="\n".join(texts))
            systems = [message["content"] for message in messages if message["role"] == "system"]
            rest = [message for message in messages if message["role"] != "system"]
            messages = [{"role": "system", "content": "\n\n".join(systems) + declared}, *rest]
        return text_of(messages, None, opener)

    return render


def _with_typescript(loaded: Any, variables: dict[str, Any]) -> shapes.TextOf:
    """Kimi's own tokenizer class hands the template its tools as TypeScript; its encoder is upstream's."""

    def render(messages: list[dict[str, Any]], tools: Any, opener: bool) -> str:
        extra: dict[str, Any] = {}
        if tools:
            from tinker_cookbook.renderers.kimi_k2_5_tool_declaration_ts import encode_tools_to_typescript_style

            extra["tools_ts_str"] = encode_tools_to_typescript_style(tools)
        return shapes.template_text(loaded, **variables, **extra)(messages, tools, opener)

    return render


def expected_ids(case: Case, messages: list[dict[str, Any]], tools: Any, opener: bool) -> list[int] | None:
    """The official ids, ``None`` where the template refuses the conversation."""
    try:
        text = reference(case)(messages, tools, opener)
    except Exception:
        return None
    return shapes.encode(tokenizer(case.model), text)


def conversations() -> list[tuple[str, list[dict[str, Any]], bool]]:
    """Name, messages and whether to end with the opener, for all shapes and histories."""
    out = []
    for shape in shapes.SHAPES:
        out.append((shape.name, [*shapes.OPENING, shape.assistant, *shape.new], True))
    out += [(name, messages, True) for name, messages in HISTORIES.items()]
    out += [(f"{name}, no opener", messages, False) for name, messages, _ in list(out)]
    return out + [(name, messages, False) for name, messages in CLOSED.items()]


def official_delta(case: Case, shape: shapes.Shape, tools: Any) -> list[int] | None:
    """The ids behind the close of the shape's assistant turn, ``None`` where the format refuses the conversation."""
    try:
        return shapes.continuation(tokenizer(case.model), reference(case), shape, shapes.closes(case.model), tools)
    except Exception:
        return None


def official_turn(case: Case, shape: shapes.Shape, tools: Any) -> tuple[list[int], list[int]] | None:
    """P and C of the shape, ``None`` where the format refuses."""
    try:
        return shapes.sampled_turn(tokenizer(case.model), reference(case), shape, shapes.closes(case.model), tools)
    except Exception:
        return None


@functools.cache
def resolved_renderer(renderer: str, model: str, thinking: bool | None = None) -> Any:
    """What ``resolve`` returns for this renderer on this model's tokenizer; skips where one of them can't be had."""
    import pytest
    from rllm_renderer_tinker import catalog

    from rllm_renderer_core import resolve

    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    if renderer not in catalog.builtin_names():
        pytest.skip(f"this tinker-cookbook has no renderer {renderer!r}")
    return resolve(model, real_tokenizers.load(model), backend="tinker", renderer=renderer, thinking=thinking, parity="off")
