"""Ministral's tool declarations, after the chat_template.jinja of Ministral-3-14B-Reasoning-2512."""

from __future__ import annotations

import json
from typing import Any

_OPEN, _CLOSE = "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"


class PlainTools:
    """In front of the cookbook's ``mistral``, which escapes what isn't ASCII in a declaration; the template doesn't."""

    def _render_system_message(self, message: Any) -> tuple[str, str]:
        header, body = super()._render_system_message(message)  # type: ignore[misc]
        before, opened, declared = body.rpartition(_OPEN)
        if not opened or not declared.endswith(_CLOSE):
            return header, body
        try:
            tools = json.loads(declared.removesuffix(_CLOSE))
        except ValueError:  # the marker is text of the system message
            return header, body
        return header, before + opened + json.dumps(tools, ensure_ascii=False) + _CLOSE
