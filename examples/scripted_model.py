"""What the examples share: a real vocabulary, a tool, and a script in the place of a model."""

from __future__ import annotations

from typing import Any

from rllm_renderer_cli.demo.tokenizer import MODEL, QwenVocabulary

from rllm_renderer_core import ToolCall

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "thermometer",
            "description": "Degrees Celsius in a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
QUESTION = {"role": "user", "content": "How warm is it in Oslo?"}
CALL = (
    "I should look.\n</think>\n\n<tool_call>\n<function=thermometer>\n<parameter=city>\nOslo\n</parameter>\n</function>\n"
    "</tool_call><|im_end|>"
)
ANSWER = "Three degrees.\n</think>\n\nIt is 3 degrees in Oslo.<|im_end|>"


def tokenizer() -> QwenVocabulary:
    return QwenVocabulary()


def sampler(vocabulary: QwenVocabulary) -> Any:
    """Prompt ids to completion ids: it calls the tool until the prompt ends with a result."""

    def sample(prompt: list[int]) -> list[int]:
        last = vocabulary.decode(prompt).rpartition("<|im_start|>user\n")[2]
        return vocabulary.encode(ANSWER if "<tool_response>" in last else CALL, add_special_tokens=False)

    return sample


def run(call: ToolCall) -> dict[str, Any]:
    """The environment: a message with the result of one call."""
    return {"role": "tool", "tool_call_id": call.id, "content": "3"}


__all__ = ["MODEL", "QUESTION", "TOOLS", "run", "sampler", "tokenizer"]
