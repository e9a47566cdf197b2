"""What a model samples to end a turn, where the rendering of a finished turn doesn't show it: learned from probe conversations.

Most formats write the stop behind the turn. GLM writes none: the next role's tag is what the model samples. DeepSeek-V3's
template forgets it behind a single call. Both show when the conversation goes on.
"""

from __future__ import annotations

import json
from typing import Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.normal_form.ids import common_prefix

_USER = {"role": "user", "content": "ping"}
_CALL = {"id": "functions.look_zq:0", "type": "function"}
_RESULT = {"role": "tool", "content": "pong", "tool_call_id": _CALL["id"], "name": "look_zq"}


class Stops:
    """The stops of one renderer.

    Args:
        renderer: What ``resolve`` returned.

    Attributes:
        ids: At which sampling stops.
    """

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer
        self.ids = frozenset(renderer.get_stop_token_ids())
        self._learned: dict[bool, int | None] = {}

    def unwritten(self, *, calls: bool) -> int | None:
        """The stop of a turn that is rendered without one, with or without calls; ``None`` where nothing shows it."""
        if calls not in self._learned:
            self._learned[calls] = self._learn(calls)
        return self._learned[calls]

    def _learn(self, calls: bool) -> int | None:
        new = _RESULT if calls else _USER
        finished, going_on = self._behind(calls, None), self._behind(calls, new)
        if finished is None or going_on is None or going_on[: len(finished)] != finished:
            return None
        behind = going_on[len(finished) :]
        if behind and behind[0] in self.ids:
            return behind[0]
        return self._forgotten(behind) if calls else None

    def _forgotten(self, behind: list[int]) -> int | None:
        """The stop of a turn of text, where results follow calls just as they follow a text and its stop."""
        text, going_on = self._behind(False, None), self._behind(False, _RESULT)
        return text[0] if text and text[0] in self.ids and going_on == text + behind else None

    def _behind(self, calls: bool, new: dict[str, Any] | None) -> list[int] | None:
        """The ids behind what the turn says (its text, or its call's argument), whatever that is; ``None``: it is refused."""
        ends = []
        for marker in ("alpha1", "omega7"):
            turn: dict[str, Any] = {"role": "assistant", "content": "" if calls else marker}
            if calls:
                turn["tool_calls"] = [{**_CALL, "function": {"name": "look_zq", "arguments": json.dumps({"q": marker})}}]
            messages = [_USER, turn] if new is None else [_USER, turn, new]
            try:
                ends.append(list(self._renderer.render_ids(messages, add_generation_prompt=new is not None)))
            except RendererError:
                return None
        same = common_prefix(reversed(ends[0]), reversed(ends[1]))
        return ends[0][len(ends[0]) - same :]
