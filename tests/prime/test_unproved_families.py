"""Families whose vocabulary is in no package: on a stand-in vocabulary with their control tokens, a bridge must put behind a
turn what the same renderer's full render puts there. Their templates aren't compared: see docs/models-in-detail.md."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import real_tokenizers
import shapes

from rllm_renderer_core import BridgeDeclined, TokenizerError, resolve

MODELS = {
    "tencent/Hy3": "hy3",
    "poolside/Laguna-XS.2": "laguna_xs2",
    "poolside/Laguna-M.1": "laguna_xs2",
    "poolside/Laguna-XS-2.1": "laguna_xs2",
    "poolside/Laguna-S-2.1": "laguna_xs2",
    "thinkingmachines/Inkling": "inkling",
    "moonshotai/Kimi-K2-Instruct": "kimi_k2",
    "PrimeIntellect/Qwen3-0.6B": "prime_qwen3",
    "zai-org/GLM-5.3": "glm5",
}
FORCED = {("tencent/Hy3", "system"): "beginning of the conversation"}


def stand_in(model: str, module: str) -> Any:
    """Qwen3's vocabulary with the control tokens that upstream's module writes down."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tree = ast.parse(inspect.getsource(importlib.import_module(f"renderers.{module}")))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    markers = sorted(text for text in texts if re.fullmatch(r"[<〈\[][^\s{}<>〈〉]{1,40}[>〉\]]", text))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(real_tokenizers.vocabulary("Qwen/Qwen3-8B")),
        name_or_path=model,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([*markers, "<think>", "</think>"], special_tokens=True)
    return tokenizer


def resolved(model: str, tokenizer: Any) -> Any:
    for _ in range(40):
        try:
            return resolve(model, tokenizer, backend="prime", parity="off")
        except TokenizerError as error:
            missing = re.search(r"(?:token|for) '([^']+)'", str(error))
            assert missing, error
            tokenizer.add_tokens([missing[1]], special_tokens=True)
    raise AssertionError("no end of control tokens")


@pytest.mark.parametrize("model", list(MODELS))
def test_a_bridge_is_what_a_full_render_puts_there(model: str, tokenizer_of: Callable[[str], Any]) -> None:
    tokenizer_of("Qwen/Qwen3-8B")
    tokenizer = stand_in(model, MODELS[model])
    renderer = resolved(model, tokenizer)
    stops = set(renderer.get_stop_token_ids())
    for shape in shapes.SHAPES:
        full = renderer.render_ids([*shapes.OPENING, shape.assistant, *shape.new], add_generation_prompt=True)
        prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
        rendered = renderer.render_ids([*shapes.OPENING, shape.assistant])
        start = next((i for i, pair in enumerate(zip(prompt, rendered, strict=False)) if pair[0] != pair[1]), len(prompt))
        sampled = rendered[start:]
        if tokenizer.decode(prompt[-1:]) == "<think>" and "</think>" not in tokenizer.decode(sampled):
            sampled = [*shapes.encode(tokenizer, "x</think>"), *sampled]
        if not stops & set(sampled):  # GLM's turns are closed by the next role tag, and Hy3's last one isn't closed
            end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
            sampled = [*sampled, end if end in stops else min(stops)]
        sampled = sampled[: next(i for i, token in enumerate(sampled) if token in stops) + 1]
        out = renderer.try_bridge(prompt, sampled, shape.new, previous_message=shape.assistant)
        if (model, shape.name) in FORCED:
            assert isinstance(out, BridgeDeclined) and FORCED[model, shape.name] in out.reason
            continue
        assert not isinstance(out, BridgeDeclined), f"{shape.name}: {out.reason}"
        delta = out.token_ids[len(prompt) + len(sampled) :]
        assert delta and full[-len(delta) :] == delta, shape.name
        assert all(message["content"].strip() in tokenizer.decode(delta) for message in shape.new)
