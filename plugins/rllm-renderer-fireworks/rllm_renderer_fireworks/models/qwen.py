"""Assistant turns of Qwen3.6 and 3.8 as their chat_template.jinja write them, and 3.8's form without thinking."""

from __future__ import annotations

from typing import Any

from rllm_renderer_tinker import turns

from rllm_renderer_core.errors import MessageError


class NoThinking:
    """In front of the cookbook's ``qwen3_8``: the template keeps old reasoning here too; the cookbook's variant drops it."""

    _qwen3_8_enable_thinking = False
    tokenizer: Any

    def _get_generation_suffix(self, role: Any, ctx: Any) -> list[int]:
        """The opener with a thought that is closed and empty."""
        ids: list[int] = super()._get_generation_suffix(role, ctx)  # type: ignore[misc]
        [opened] = self.tokenizer.encode("<think>", add_special_tokens=False)
        if opened not in ids:
            return ids
        thought = self.tokenizer.encode("<think>\n\n</think>\n\n", add_special_tokens=False)
        return [*ids[: ids.index(opened)], *thought]


def turn(message: dict[str, Any], current: bool, last: bool) -> str:
    """An assistant turn of Qwen3.6: a thought, be it empty, in each turn behind the last query; arguments as JSON.

    Raises:
        MessageError: Nothing stands behind the thought: upstream trims the blank line that the template writes there.
    """
    if current and not message["content"].strip() and not message.get("tool_calls"):
        raise MessageError(
            f"message {message.get('_index')} (assistant) has neither text nor calls, which upstream can't write",
            fix="leave the message out, or choose another backend=",
            index=message.get("_index"),
        )
    thought = f"<think>\n{message.get('reasoning_content', '').strip()}\n</think>\n\n" if current else ""
    return thought + turns.qwen3_8(message, current, last)


def preserved_turn(message: dict[str, Any], current: bool, last: bool) -> str:
    """The same with ``preserve_thinking``, which is Qwen3.8's default: a thought in every turn."""
    return turn(message, True, last)
