"""Of a backend's renderer the core reads the protocol's methods and ``traits``, and nothing else."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
import real_tokenizers
import shapes
from served import pairs, shown_tools
from toy import ToyRenderer

from rllm_renderer_core import ContractError, Renderer, RendererError, RendererTraits, resolve
from rllm_renderer_core.testing import wrap

PROTOCOL = {name for name in vars(Renderer) if not name.startswith("_")}
FEW = [("Qwen/Qwen3-8B", "prime"), ("MiniMaxAI/MiniMax-M3", "minimax-m3"), ("Qwen/Qwen3-8B", "chat-template")]


class Watched:
    """A renderer that tells which of its attributes are read."""

    def __init__(self, inner):
        self._inner, self.read = inner, set()

    def __getattribute__(self, name):
        if name in ("_inner", "read") or name.startswith("__"):
            return object.__getattribute__(self, name)
        self.read.add(name)
        return getattr(self._inner, name)

    # What ``isinstance`` with a runtime protocol looks for.
    render = render_ids = parse_response = get_stop_token_ids = bridge_to_next_turn = None


@pytest.mark.parametrize(("model", "backend"), pairs(FEW))
def test_nothing_else_is_read(model, backend):
    tokenizer = real_tokenizers.load(model)
    watched = Watched(resolve(model, tokenizer, backend=backend, parity="off").upstream)
    renderer = wrap(watched, tokenizer)
    messages = [shapes.user("ping")]
    tools = shown_tools(renderer)
    prompt = renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
    renderer.render([*messages, {"role": "assistant", "content": "four"}])
    call = {"role": "assistant", "content": "", "tool_calls": [shapes.call("look", "functions.look:0")]}
    try:
        sampled = renderer.render_ids([*messages, call], tools=tools)[len(prompt) :]
    except RendererError:  # a format without calls
        sampled = renderer.render_ids([*messages, {"role": "assistant", "content": "four"}])[len(prompt) :]
    parsed = renderer.parse_response(sampled, tools=tools, prompt_ids=prompt)
    renderer.parse_response(sampled[: len(sampled) // 2], tools=tools, prompt_ids=prompt)
    results = [shapes.result("look", each["id"], "five") for each in parsed.tool_calls] or [shapes.user("And?")]
    renderer.try_bridge(prompt, sampled, results, tools=tools, previous_message=parsed.to_message())
    renderer.get_stop_token_ids(), renderer.get_stop_strings(), renderer.why_no_tool_calls
    assert watched.read <= PROTOCOL | {"traits"}


def test_every_trait_is_in_the_docs_of_plugins():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert [field.name for field in dataclasses.fields(RendererTraits) if f"`{field.name}" not in page] == []


def test_traits_of_another_type_are_a_broken_contract():
    class Odd(ToyRenderer):
        traits = None

    with pytest.raises(ContractError, match="traits of Odd must be RendererTraits, not NoneType"):
        wrap(Odd())
