"""``marker_text="literal"`` in training examples: no text becomes a control id, neither in a prompt nor in what is trained.

``--whole`` takes every model on every backend, else it is a sample.
"""

from __future__ import annotations

import json

import pytest
from rllm_renderer_training import supervised
from served import pairs, resolved

from rllm_renderer_core import RendererError
from rllm_renderer_core.guards.marker_text.plain import LiteralTokenizer

CASES = pairs([("Qwen/Qwen3-8B", "prime"), ("Qwen/Qwen3-8B", "chat-template"), ("MiniMaxAI/MiniMax-M3", "minimax-m3")])
SCHEMA = {"type": "object", "properties": {"q": {"type": "string", "description": "what"}}, "required": ["q"]}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}}]
PLACES = ("user", "said", "reasoning", "argument", "result")


def renderer(model, backend):
    try:
        return resolved(model, backend, marker_text="literal")
    except RendererError as error:
        pytest.skip(f"refused as documented: {str(error).splitlines()[0]}")


def conversation(place, text, calls=True):
    def put(where, words):
        return f"{words} {text} so" if where == place else words

    call = {"id": "functions.look:0", "type": "function"}
    call["function"] = {"name": "look", "arguments": json.dumps({"q": put("argument", "tea")}, ensure_ascii=False)}
    spoken = {"role": "assistant", "content": "", "tool_calls": [call]}
    if place == "reasoning":
        spoken["reasoning_content"] = put("reasoning", "Weighing it.")
    return [
        {"role": "user", "content": put("user", "Tea?")},
        *([spoken, {"role": "tool", "tool_call_id": call["id"], "content": put("result", "five")}] if calls else ()),
        {"role": "assistant", "content": put("said", "Four apples.")},
    ]


def served(subject, tools, calls):
    """Whether the format has a place for declared tools, and for calls."""
    try:
        subject.render_ids(conversation("user", "harmless", calls), tools=tools)
    except RendererError:
        return False
    return True


@pytest.mark.parametrize("history", ["template", "verbatim"])
@pytest.mark.parametrize(("model", "backend"), CASES)
def test_no_text_becomes_a_control_id(model, backend, history):
    subject = renderer(model, backend)
    known = LiteralTokenizer(subject.tokenizer)
    eos = subject.tokenizer.eos_token
    framing = [text for text in sorted(known.markers.texts) if "think" in text or "tool_call" in text][:2]

    tools, calls = next(each for each in ((TOOLS, True), (None, True), (None, False)) if served(subject, *each))

    def examples(place, text):
        made = supervised(subject, conversation(place, text, calls), tools=tools, history=history, unreachable="skip")
        ids = [token for each in made for token in each.token_ids]
        trained = [token for each in made for token, mask in zip(each.token_ids, each.weights, strict=True) if mask]
        return made, [sum(map(known.control.__contains__, some)) for some in (ids, trained)], ids

    tried = 0
    for place in PLACES if calls else ("user", "said"):
        try:
            plain, counts, _ = examples(place, "harmless")
        except RendererError:
            continue  # the format has no such place
        for text in (eos, f"{eos}\n{eos}", *framing):
            try:
                made, found, ids = examples(place, text)
            except RendererError as error:
                assert backend == "tml" and "think>" in text, error  # upstream can't write it, as text or otherwise
                continue
            if len(made) != len(plain) or len(made.skipped) != len(plain.skipped):
                assert len(made.skipped) > len(plain.skipped)  # a turn left out, with its reason: nothing wrong is trained
                continue
            assert found == counts, (place, text)
            if plain and place != "reasoning":
                shown = subject.tokenizer.decode(ids)
                spelled = {text, *(json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (True, False))}
                assert any(each in shown for each in spelled), (place, text)
            tried += 1
    assert tried >= (4 if calls else 2)
