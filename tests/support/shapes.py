"""Turn shapes, and what a model's official template puts behind an assistant turn: the oracle of all bridge tests.

The oracle works on the template's text: it finds the assistant's last words, the first close behind them, and takes the ids
whose characters lie behind that close. It shares nothing with the seam, which compares ids of probe conversations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_template.parity.probes import FOREIGN_VALUES

LAST_WORDS = "four apples xq"
CALL_WORDS = "tea leaves xq"

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look something up.",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string", "description": "what"}, "deep": {"type": "boolean"}},
                "required": ["q"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "count",
            "description": "Count things.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        },
    },
]

LETTERS = FOREIGN_VALUES[0]
"""A declaration with letters of other scripts."""

CLOSES = {
    "Qwen/": ["<|im_end|>"],
    "nvidia/": ["<|im_end|>"],
    "moonshotai/": ["<|im_end|>"],
    "deepseek-ai/": ["<｜end▁of▁sentence｜>"],
    "zai-org/": ["<|user|>", "<|observation|>", "<|system|>"],
    "MiniMaxAI/": ["[e~["],
    "openai/": ["<|end|>", "<|call|>", "<|return|>"],
    "meta-llama/": ["<|eot_id|>"],
    "google/gemma-3": ["<end_of_turn>"],
    "google/gemma-4": ["<turn|>", "<|tool_response>"],
    "mistralai/": ["</s>"],
}
"""Texts that end an assistant's turn, by the start of the model's name."""

STOPS = {
    "zai-org/": ["<|endoftext|>", "<|user|>", "<|observation|>"],
    "openai/": ["<|return|>", "<|call|>"],
    "moonshotai/": ["<|im_end|>"],
    "google/gemma-4": ["<turn|>", "<|tool_response>"],
}
"""Texts at which sampling stops, where they aren't the closes."""


RESULT_OPENERS = {"deepseek-ai/DeepSeek-V3": "<｜tool▁outputs▁begin｜>"}
"""Where a template forgets to close a turn of one call, though the model does: the text at which the next turn starts."""


def closes(model: str) -> list[str]:
    return next(texts for prefix, texts in CLOSES.items() if model.startswith(prefix))


def stops(model: str) -> list[str]:
    return next((texts for prefix, texts in STOPS.items() if model.startswith(prefix)), closes(model))


def call(name: str, call_id: str, q: str = CALL_WORDS) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps({"q": q})}}


def result(name: str, call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


OPENING = [{"role": "system", "content": "Be brief."}, user("How many apples?")]
TEXT = {"role": "assistant", "content": LAST_WORDS}
ONE_CALL = {"role": "assistant", "content": "", "tool_calls": [call("look", "functions.look:0")]}
TWO_CALLS = {
    "role": "assistant",
    "content": "",
    "tool_calls": [call("look", "functions.look:0", "plums"), call("count", "functions.count:1")],
}
ONE = result("look", "functions.look:0", "five")
A, B = ONE, result("count", "functions.count:1", "seven")


@dataclass(frozen=True)
class Shape:
    """``assistant`` is the turn that was sampled, ``new`` what follows it."""

    name: str
    assistant: dict[str, Any]
    new: list[dict[str, Any]]

    @property
    def last_words(self) -> str:
        return CALL_WORDS if self.assistant.get("tool_calls") else LAST_WORDS

    def unnamed(self) -> Shape:
        """The same, with results that carry only the id of their call, as OpenAI's clients send them."""
        bare = [{key: value for key, value in message.items() if key != "name"} for message in self.new]
        return Shape(f"{self.name} (unnamed)", self.assistant, bare)


SHAPES = [
    Shape("user", TEXT, [user("And lids?")]),
    Shape("two users", TEXT, [user("And lids?"), user("And cups?")]),
    Shape("one result", ONE_CALL, [ONE]),
    Shape("two results", TWO_CALLS, [A, B]),
    Shape("results in reverse", TWO_CALLS, [B, A]),
    Shape("result then user", ONE_CALL, [ONE, user("Sure?")]),
    Shape("empty result", ONE_CALL, [result("look", "functions.look:0", "")]),
    Shape("unicode and edges", TEXT, [user("  Größe 日本 \u00e9\U0001f600? \n")]),
    Shape("system", TEXT, [{"role": "system", "content": "Be kind."}, user("And lids?")]),
]
"""The nine turn shapes."""

TextOf = Callable[[list[dict[str, Any]], "list[dict[str, Any]] | None", bool], str]
"""Messages, tools and whether to end with the opener, to the official text; raises where the format refuses."""


def template_text(tokenizer: Any, **variables: Any) -> TextOf:
    """The tokenizer's chat template as a ``TextOf``, with calls in the form that it takes."""

    def render(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool) -> str:
        text = tokenizer.apply_chat_template(
            for_template(tokenizer, messages), tools=tools, add_generation_prompt=opener, tokenize=False, **variables
        )
        assert isinstance(text, str)
        return text

    return render


TEXT_ARGUMENTS = ("deepseek-ai/DeepSeek-V3", "moonshotai/")
NONE_CONTENT = ("deepseek-ai/DeepSeek-V3",)


def for_template(tokenizer: Any, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages in the form that this template was written for: arguments as a mapping, or text where it concatenates them."""
    out = []
    for message in messages:
        message = dict(message)
        if message.get("tool_calls"):
            name = tokenizer.name_or_path
            calls = json.loads(json.dumps(message["tool_calls"]))
            if not name.startswith(TEXT_ARGUMENTS):
                for each in calls:
                    each["function"]["arguments"] = json.loads(each["function"]["arguments"])
            message["tool_calls"] = calls
            if name.startswith(NONE_CONTENT) and not message["content"]:
                message["content"] = None
        out.append(message)
    return out


def continuation(
    tokenizer: Any, text_of: TextOf, shape: Shape, close: Sequence[str], tools: Any = None, opening: Any = None
) -> list[int]:
    """The ids that the official format puts behind the close of the assistant's turn, up to and with the next opener.

    Raises whatever the template raises where the format refuses the conversation.
    """
    messages = [*(OPENING if opening is None else opening), shape.assistant, *shape.new]
    return _split(tokenizer, text_of(messages, tools, True), shape.last_words, close)[1]


def sampled_turn(
    tokenizer: Any, text_of: TextOf, shape: Shape, close: Sequence[str], tools: Any = None, opening: Any = None
) -> tuple[list[int], list[int]]:
    """P and C: the prompt, and the turn as a model would have sampled it, reasoning included, with its stop."""
    opening = OPENING if opening is None else opening
    prompt = encode(tokenizer, text_of(opening, tools, True))
    turn = {**shape.assistant, "reasoning_content": "Weighing it."}
    text = text_of([*opening, turn, *shape.new[:1]], tools, True)
    if "Weighing it." not in text:
        text = text_of([*opening, turn], tools, False) + close[0]
    through = _split(tokenizer, text, shape.last_words, close)[0]
    if through[-1] not in tokenizer.convert_tokens_to_ids(list(close)):
        through.append(tokenizer.convert_tokens_to_ids(close[0]))
    start = 0
    while start < min(len(prompt), len(through)) and prompt[start] == through[start]:
        start += 1
    return prompt, through[start:]


def encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _split(tokenizer: Any, text: str, last_words: str, close: Sequence[str]) -> tuple[list[int], list[int]]:
    """Ids through the first close behind the last words, and the ids behind it."""
    at = text.rindex(last_words) + len(last_words)
    found = [(text.index(each, at) + len(each), each) for each in close if each in text[at:]]
    opener = RESULT_OPENERS.get(tokenizer.name_or_path)
    missing = opener is not None and opener in text[at:]
    end = min(found)[0] if found else text.index(opener or "", at)
    if missing and opener is not None and text.index(opener, at) < end:
        end = text.index(opener, at)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = list(encoded["input_ids"])
    index = next((i for i, (start, _) in enumerate(encoded["offset_mapping"]) if start >= end), len(ids))
    return ids[:index], ids[index:]
