"""Texts made of fragments of control tokens: whole, cut, repeated, nested, look-alikes; none of them becomes a control id.

A sample; thousands of texts a vocabulary and a renderer with ``--whole``.
"""

from __future__ import annotations

import json
import random
import unicodedata
import warnings

import pytest
import real_tokenizers
from sampling import WHOLE, how_many
from served import covers, resolved

from rllm_renderer_core import MessageError, RendererWarning
from rllm_renderer_core.guards.marker_text.markers import GUARD
from rllm_renderer_core.guards.marker_text.plain import LiteralTokenizer

MODELS = (
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-V3.1",
    "MiniMaxAI/MiniMax-M3",
    "zai-org/GLM-5",
    "google/gemma-4-E2B-it",
    "google/gemma-3-4b-it",
    "openai/gpt-oss-20b",
)
RENDERERS = (
    ("Qwen/Qwen3-8B", "chat-template"),
    ("Qwen/Qwen3-8B", "tml"),
    ("MiniMaxAI/MiniMax-M3", "minimax-m3"),
    ("deepseek-ai/DeepSeek-V3.1", "tinker"),
    ("Qwen/Qwen3-8B", "prime"),
    ("zai-org/GLM-5.2", "fireworks"),
    ("openai/gpt-oss-20b", "tinker"),
    ("openai/gpt-oss-20b", "prime"),
    ("google/gemma-4-E2B-it", "chat-template"),
    ("meta-llama/Llama-3.2-3B-Instruct", "chat-template"),
)
WIDE = {ord("|"): "｜", ord("_"): "＿", ord("<"): "＜", ord(">"): "＞", ord("["): "［", ord("/"): "／", ord("｜"): "|"}
WIDE |= {ord("▁"): "_", ord("e"): "ｅ"}
"""To characters that NFKC, or a careless reader, takes for the same."""


def text_of(chance, markers):
    """A text of fragments; every kind of them is in a few dozen texts."""

    def fragment():
        marker = chance.choice(markers)
        cut = chance.randint(0, len(marker))
        return chance.choice(
            (
                marker,
                marker[:cut],
                marker[cut:],
                marker * chance.randint(2, 4),
                marker[:cut] + marker + marker[cut:],
                marker[:cut] + chance.choice(markers) + marker[cut:],
                marker.translate(WIDE),
                marker[:cut].translate(WIDE) + marker[cut:],
                marker.upper() if chance.random() < 0.5 else marker.title(),
                " ",
                "\n",
                "a",
                "\u200b",
                "é",
                "＜",
            )
        )

    return "".join(fragment() for _ in range(chance.randint(1, 8)))


@pytest.mark.parametrize("model", real_tokenizers.here(*(MODELS if WHOLE else MODELS[:1])))
def test_no_text_becomes_a_control_id(model):
    tokenizer = real_tokenizers.load(model)
    literal = LiteralTokenizer(tokenizer)
    markers = sorted(literal.markers.texts)
    chance = random.Random(model)
    for _ in range(how_many(150, 5_000)):
        text = text_of(chance, markers)
        ids = literal.encode(literal.markers.guarded(text), add_special_tokens=False)
        assert not literal.control.intersection(ids), text
        if literal.markers.in_text(text):
            shown = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
            assert unicodedata.normalize("NFC", shown) == unicodedata.normalize("NFC", text)


def escaped(chance, text):
    """JSON of ``{"q": text}`` with some of its characters escaped, in each way that JSON has."""
    out = []
    for character in json.dumps(text, ensure_ascii=chance.random() < 0.5)[1:-1]:
        plain = character.isascii() and character.isalnum() is False and character not in '\\"'
        if character == "/" and chance.random() < 0.3:
            out.append("\\/")
        elif plain and out[-1:] != ["\\"] and chance.random() < 0.3:
            out.append(f"\\u{ord(character):04{chance.choice('xX')}}")
        else:
            out.append(character)
    found = '{"q": "' + "".join(out) + '"}'
    assert json.loads(found) == {"q": text}
    return found


PLACES = ("a text", "parts", "a result", "arguments", "a name", "a description", "reasoning")


def conversation(place, text, chance):
    """A conversation with the text in one place, and its tools."""
    cut = chance.randint(0, len(text))
    parts = [{"type": "text", "text": each} for each in (text[:cut], text[cut:])]
    user = {"role": "user", "content": {"a text": text, "parts": parts}.get(place, "hi")}
    if place in ("a text", "parts"):
        return [{"role": "system", "content": f"{text}." if chance.random() < 0.5 else "Be brief."}, user], None
    name = f"look{text}" if place == "a name" else "look"
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "what"}}}
    described = text if place == "a description" else "Look."
    tools = [{"type": "function", "function": {"name": name, "description": described, "parameters": schema}}]
    arguments = escaped(chance, text) if place == "arguments" else '{"q": "x"}'
    call = {"id": "functions.look:0", "type": "function", "function": {"name": name, "arguments": arguments}}
    spoken = {"role": "assistant", "content": "", "tool_calls": [call]}
    if place == "reasoning":
        spoken["reasoning_content"] = f"so {text}"
    result = parts if chance.random() < 0.5 else text
    return [
        user,
        spoken,
        {"role": "tool", "tool_call_id": call["id"], "content": result if place == "a result" else "r"},
    ], tools


@pytest.mark.parametrize(("model", "backend"), [pair for pair in (RENDERERS if WHOLE else RENDERERS[:2]) if covers(*pair)])
def test_no_text_in_a_conversation_becomes_a_control_id(model, backend):
    literal, allowing = (resolved(model, backend, marker_text=mode, dropped="warn") for mode in ("literal", "allow"))
    known = LiteralTokenizer(literal.tokenizer)
    markers = sorted(known.markers.texts)
    chance = random.Random(f"{model} {backend}")

    def rendered(subject, messages, tools):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RendererWarning)
            return subject.render_ids(messages, tools=tools, add_generation_prompt=True)

    plain = {}
    for place in PLACES:
        ids = rendered(literal, *conversation(place, "harmless", random.Random(0)))
        plain[place] = sum(map(known.control.__contains__, ids))
    refused = 0
    for at in range(count := how_many(70, 2_000)):
        place = PLACES[at % len(PLACES)]
        text = f"x{text_of(chance, markers)}x" if place == "a name" else text_of(chance, markers)
        messages, tools = conversation(place, text, chance)
        try:
            ids = rendered(literal, messages, tools)
        except MessageError:
            refused += 1  # upstream can't write it, as text or otherwise
            continue
        assert sum(map(known.control.__contains__, ids)) == plain[place], (place, text)
        shown = literal.tokenizer.decode(ids, skip_special_tokens=False)
        assert GUARD not in shown
        if backend == "chat-template":  # whose text doesn't depend on what a token is
            assert shown == literal.tokenizer.decode(rendered(allowing, messages, tools), skip_special_tokens=False)
    assert refused <= count // 4
