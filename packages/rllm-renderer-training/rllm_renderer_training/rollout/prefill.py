"""A prompt that ends inside an assistant message (a prefill), as transformers' ``continue_final_message`` makes one."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.tokenizer import decoder_of
from rllm_renderer_core.renderer.resolved import ResolvedRenderer

from ..errors import RolloutError

FIX = "leave the begun answer out, or take a renderer whose format shows it as it is"


def prefilled(
    renderer: ResolvedRenderer, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> tuple[list[int], int]:
    """The conversation up to the last character of its final assistant message, and where that message's turn begins.

    The ids are those of the finished turn, cut behind the message's text: ``...assistant\\nThe answer is`` of
    ``...assistant\\nThe answer is<|im_end|>``. They are proven by the parser, which must read that text out of them.
    """
    *before, last = messages
    text = last["content"]
    if last["role"] != "assistant" or not isinstance(text, str) or not text.strip() or last.get("tool_calls"):
        raise RolloutError(
            "continue_final_message needs a final assistant message of text, without tool calls",
            fix="end the messages with the begun answer, or leave continue_final_message out",
        )
    if not before:
        raise RolloutError("a begun answer needs a message before it", fix="put the user's message in front of it")
    if not callable(getattr(renderer.tokenizer, "decode", None)):
        raise RolloutError(f"the tokenizer of {renderer!r} can't decode, so that no begun answer is found", fix=FIX)
    ids = renderer.render_ids(messages, tools=tools)
    start = common_prefix(ids, renderer.render_ids(before, tools=tools, add_generation_prompt=True))
    decode = decoder_of(renderer.tokenizer)
    wanted = text if text in decode(ids[start:]) else text.strip()  # as transformers: a template may trim
    end = next((at for at in range(len(ids), start, -1) if decode(ids[start:at]).endswith(wanted)), None)
    if end is None:
        raise RolloutError(f"{renderer!r} doesn't show the begun answer {text[-40:]!r} at the end of its turn", fix=FIX)
    parsed = renderer.parse_response(ids[start:end], tools=tools, prompt_ids=ids[:start])
    if parsed.content.strip() != text.strip() or parsed.tool_calls or not parsed.reasoning_complete:
        raise RolloutError(f"{renderer!r} reads the begun answer {text[-40:]!r} as {parsed.content[-40:]!r}", fix=FIX)
    return ids[:end], start
