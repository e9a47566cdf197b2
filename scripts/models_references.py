"""What each model's ids are compared with in the summary of docs/models.md: the reference that is right for the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fireworks_oracle
import harmony_oracle
import real_tokenizers
import shapes
import tinker_oracle
import tml_oracle
from rllm_renderer_template.parity.comparison import template_ids
from rllm_renderer_template.parity.probes import Probe

from rllm_renderer_core.plugin import Query

HARMONY_CALL = (
    "<|channel|>analysis<|message|>Weighing it.<|end|><|start|>assistant<|channel|>commentary to=functions.{name} "
    "<|constrain|>json<|message|>{arguments}<|call|>"
)
HARMONY_TEXT = (
    "<|channel|>analysis<|message|>Weighing it.<|end|><|start|>assistant<|channel|>final<|message|>{content}<|return|>"
)


@dataclass(frozen=True)
class Reference:
    """``ids`` takes a probe; ``turn`` takes a shape, to prompt, completion, and what follows them. Both return the reason where
    the reference refuses the conversation. ``why`` says, for people, why it isn't the tokenizer's chat template."""

    ids: Callable[[Probe], list[int] | str]
    turn: Callable[[shapes.Shape], tuple[list[int], list[int], list[int]] | str]
    why: str = ""


HARMONY = "compared with harmony, which serves it: the chat template quotes tool results, and has no place for two calls"
ENCODER = "compared with DeepSeek's own encoder: the tokenizer has no chat template"
CARD = (
    "compared with the chat template, which knows no tools; with tools as the model card declares them, by json.dumps, which "
    "escapes letters outside ASCII that this renderer writes"
)
TYPESCRIPT = "compared with the chat template as the model's own tokenizer class fills it in, with tools as TypeScript"


def of(model: str) -> Reference:
    """Harmony, DeepSeek-V4's encoder, or the chat template; the tools of Kimi and DeepSeek-V3.1 as serving has them."""
    tokenizer = real_tokenizers.load(model)
    if model.startswith("openai/"):
        harmony_oracle.vocabulary_from(tokenizer)
        return Reference(_harmony_ids, functools.partial(_harmony_turn, tokenizer), HARMONY)
    if model == tml_oracle.V4:
        return _of_text(tokenizer, fireworks_oracle.reference(_case(model, fireworks_oracle.ENCODER, mode="thinking")), ENCODER)
    if model == "deepseek-ai/DeepSeek-V3.1":
        return _of_text(tokenizer, tinker_oracle.reference(tinker_oracle.Case("deepseekv3", model)), CARD)
    if model.startswith("moonshotai/"):
        return _of_text(tokenizer, fireworks_oracle.reference(_case(model, fireworks_oracle.TYPESCRIPT)), TYPESCRIPT)
    text_of = fireworks_oracle.reference(_case(model, "chat template"))
    return Reference(template_ids(Query(model, tokenizer)), functools.partial(_turn, tokenizer, text_of))


def _of_text(tokenizer: Any, text_of: shapes.TextOf, why: str) -> Reference:
    return Reference(functools.partial(_text_ids, tokenizer, text_of), functools.partial(_turn, tokenizer, text_of), why)


def _case(model: str, against: str, **variables: Any) -> fireworks_oracle.Case:
    return fireworks_oracle.Case("", model, variables, against)


def _text_ids(tokenizer: Any, text_of: shapes.TextOf, probe: Probe) -> list[int] | str:
    tools = [dict(tool) for tool in probe.tools] if probe.tools else None
    try:
        return shapes.encode(tokenizer, text_of([dict(one) for one in probe.messages], tools, probe.generation_prompt))
    except Exception as error:  # a template refuses with whatever it likes
        return str(error)


def _turn(tokenizer: Any, text_of: shapes.TextOf, shape: shapes.Shape) -> tuple[list[int], list[int], list[int]] | str:
    close = shapes.closes(tokenizer.name_or_path)
    try:
        behind = shapes.continuation(tokenizer, text_of, shape, close, shapes.TOOLS)
        return (*shapes.sampled_turn(tokenizer, text_of, shape, close, shapes.TOOLS), behind)
    except Exception as error:  # the template refuses this conversation, or doesn't show it
        return str(error)


def _harmony_ids(probe: Probe) -> list[int] | str:
    return harmony_oracle.render(probe.messages, probe.tools, opener=probe.generation_prompt)


def _harmony_turn(tokenizer: Any, shape: shapes.Shape) -> tuple[list[int], list[int], list[int]]:
    """The model samples one call a turn: of two, the last, behind which the results are written."""
    prompt = harmony_oracle.render(shapes.OPENING, shapes.TOOLS, opener=True)
    calls = shape.assistant.get("tool_calls")
    text = HARMONY_CALL.format(**calls[-1]["function"]) if calls else HARMONY_TEXT.format(**shape.assistant)
    through = harmony_oracle.render([*shapes.OPENING, shape.assistant], shapes.TOOLS, opener=False)
    whole = harmony_oracle.render([*shapes.OPENING, shape.assistant, *shape.new], shapes.TOOLS, opener=True)
    return prompt, shapes.encode(tokenizer, text), whole[len(through) :]
