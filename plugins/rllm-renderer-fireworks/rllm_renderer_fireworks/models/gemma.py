"""Gemma 4, after the chat_template.jinja of gemma-4-E2B-it: ``null`` in arguments, E2B's opener, attribution."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllm_renderer_tinker.renderer import TinkerRenderer

from rllm_renderer_core.normal_form.pairing import results_in
from rllm_renderer_core.types import Message, RenderedTokens, ToolCallStatus

_RESPONSE = ("<|tool_response>", "<tool_response|>")
_THOUGHT = "<|channel>"


class _Null:
    """Stands for ``None`` in arguments: the template writes ``null``, the cookbook whatever ``str`` gives."""

    def __str__(self) -> str:
        return "null"


def _with_null(value: Any) -> Any:
    if value is None:
        return _Null()
    if isinstance(value, dict):
        return {key: _with_null(each) for key, each in value.items()}
    return [_with_null(each) for each in value] if isinstance(value, list) else value


class Gemma:
    """In front of the cookbook's ``gemma4`` and ``gemma4_thinking``."""

    def render_message(self, message: Any, ctx: Any) -> Any:
        """Calls with their arguments parsed, so that ``null`` can be written."""
        if message.get("tool_calls"):
            message = {**message, "tool_calls": [_plain(call) for call in message["tool_calls"]]}
        return super().render_message(message, ctx)  # type: ignore[misc]


class NoEmptyThought:
    """E2B and E4B open a turn with the role alone, also where they aren't to think."""

    tokenizer: Any

    def _get_generation_suffix(self, role: Any, ctx: Any) -> list[int]:
        ids: list[int] = super()._get_generation_suffix(role, ctx)  # type: ignore[misc]
        [opened] = self.tokenizer.encode(_THOUGHT, add_special_tokens=False)
        return ids[: ids.index(opened)] if opened in ids else ids


class Gemma4Renderer(TinkerRenderer):
    """The adapter over the cookbook's Gemma 4, which renders results as part of the turn that called them."""

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """As the adapter's, with the results told apart from the assistant's own ids."""
        out = super().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        results = _answered(messages)
        if not results or out.message_indices is None or out.sampled_mask is None:
            return out
        opened, closed = (self._tokenizer.encode(text, add_special_tokens=False)[-1] for text in _RESPONSE)
        starts = [at for at, token in enumerate(out.token_ids) if token == opened]
        ends = [at for at, token in enumerate(out.token_ids) if token == closed]
        if len(starts) < len(results) or len(ends) != len(results):  # text of a message has such markers
            return RenderedTokens(out.token_ids, None, None, out.multi_modal_data)
        indices, mask = list(out.message_indices), list(out.sampled_mask)
        for index, start, end in zip(results, starts, ends, strict=False):
            # The opener of the first result is the stop that the model samples behind its calls.
            first = start + 1 if messages[index - 1]["role"] == "assistant" else start
            for at in range(first, end + 1):
                indices[at], mask[at] = index, False
        return RenderedTokens(out.token_ids, indices, mask, out.multi_modal_data)

    def _paired(
        self, new: Sequence[Message], previous: Message | None, completion: Sequence[int], tools: Sequence[Any] | None
    ) -> tuple[Sequence[Message], Message | None]:
        """The format moves text beside calls behind their results; the completion tells whether it has any."""
        if previous is None and results_in(new):
            parsed = self.parse_response(completion, tools=tools)
            if parsed.tool_calls and all(call.status is ToolCallStatus.OK for call in parsed.tool_calls):
                previous = parsed.to_message()
        return new, previous


def _answered(messages: Sequence[Message]) -> list[int]:
    """Indices of results behind calls; the template leaves others out."""
    out, calls = [], False
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            out += [index] * calls
        else:
            calls = bool(message.get("tool_calls"))
    return out


def _plain(call: Any) -> dict[str, Any]:
    """A call with its arguments as a mapping."""
    function = (
        call["function"] if isinstance(call, dict) else {"name": call.function.name, "arguments": call.function.arguments}
    )
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    identity = call.get("id") if isinstance(call, dict) else call.id
    return {"id": identity, "function": {"name": function["name"], "arguments": _with_null(arguments)}}
