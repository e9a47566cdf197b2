"""GLM-5's own format, of which GLM-5.1's, the cookbook's ``glm5``, is a revision; and what both revisions keep of reasoning."""

from __future__ import annotations

import json
from typing import Any

from rllm_renderer_tinker.rewrites import Untrimmed


class Glm51:
    """In front of the cookbook's ``glm5`` and ``glm_moe_dsa``. Source: chat_template.jinja of zai-org/GLM-5.1 and 5.2."""

    def _render_assistant(self, message: dict[str, Any], ctx: Any, **more: Any) -> Any:
        """Reasoning that the text has in it keeps its edges as well. Taken out here, as it doesn't count as reasoning where
        the template looks for turns that have some."""
        content = message["content"]
        if isinstance(content, str) and "</think>" in content:
            thought = content.split("</think>")[0].split("<think>")[-1]
            text = content.split("</think>")[-1]
            parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}]
            message = {**message, "content": parts}
        return super()._render_assistant(message, ctx, **more)  # type: ignore[misc]

    def _assistant_think_block(self, *, reasoning: str, **more: Any) -> str:
        """Reasoning keeps the white space at its edges."""
        block: str = super()._assistant_think_block(reasoning=Untrimmed(reasoning), **more)  # type: ignore[misc]
        return block


class Glm50:
    """In front of the cookbook's ``glm5``. Source: chat_template.jinja of zai-org/GLM-5."""

    def _assistant_think_block(self, *, before_last_user: bool, reasoning: str, **more: Any) -> str:
        """A turn without reasoning has no thought, not an empty one."""
        if not reasoning:
            return "</think>"
        block: str = super()._assistant_think_block(  # type: ignore[misc]
            before_last_user=before_last_user, reasoning=reasoning, **more
        )
        return block

    def create_conversation_prefix_with_tools(self, tools: list[Any], system_prompt: str = "") -> list[Any]:
        """Declares each tool as it is handed over: GLM-5 shows the wrapper, and no key is left out."""
        name = "the one tool"
        prefix = super().create_conversation_prefix_with_tools([{"name": name}], system_prompt)  # type: ignore[misc]
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        first = {**prefix[0], "content": prefix[0]["content"].replace(json.dumps({"name": name}), lines)}
        return [first, *prefix[1:]]
