"""Completions of several formats by hand: how each writes one call, and which backends have the model."""

from __future__ import annotations

import pytest
import real_tokenizers
import sampling
from served import covers, resolved

STRING, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "rm",
            "description": "Removes a file.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": STRING,
                    "n": NUMBER,
                    "i": {"type": "integer"},
                    "deep": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
                },
            },
        },
    }
]
DSML = "｜DSML｜"
QWEN, GLM, M2, V4 = "Qwen/Qwen3.5-9B", "zai-org/GLM-5.1", "MiniMaxAI/MiniMax-M2.7", "deepseek-ai/DeepSeek-V4-Flash"


def xml(*pairs):
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in pairs)
    return f"<tool_call>\n<function=rm>\n{inner}</function>\n</tool_call>"


def glm(*pairs):
    inner = "".join(f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in pairs)
    return f"<tool_call>rm{inner}</tool_call>"


def m2(*pairs):
    inner = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in pairs)
    return f'<minimax:tool_call>\n<invoke name="rm">\n{inner}</invoke>\n</minimax:tool_call>'


def v4(*pairs):
    inner = "".join(
        f'<{DSML}parameter name="{k}" string="{"true" if k == "path" else "false"}">{v}</{DSML}parameter>\n' for k, v in pairs
    )
    return f'<{DSML}tool_calls>\n<{DSML}invoke name="rm">\n{inner}</{DSML}invoke>\n</{DSML}tool_calls>'


_FORMATS = [
    ("prime", QWEN, xml), ("tinker", QWEN, xml), ("chat-template", QWEN, xml),
    ("prime", GLM, glm), ("fireworks", GLM, glm), ("chat-template", GLM, glm),
    ("prime", M2, m2), ("fireworks", M2, m2), ("chat-template", M2, m2),
    ("prime", V4, v4), ("fireworks", V4, v4),
]  # fmt: skip
FORMATS = sampling.one_each([row for row in _FORMATS if covers(row[1], row[0])], key=lambda row: row[1])
"""Backend, model, and how its format writes a call: those that are here; one backend a format without ``--whole``."""


def served(backend, model):
    """The renderer and its tokenizer; skips where the backend isn't here."""
    if not covers(model, backend):
        pytest.skip(f"{backend} doesn't serve {model} here")
    return resolved(model, backend), real_tokenizers.load(model)
