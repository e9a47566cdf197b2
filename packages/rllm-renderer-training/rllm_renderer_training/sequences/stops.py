"""What a model samples to end a turn, where the rendering of a finished turn doesn't show it: learned from probe conversations.

Most formats write the stop behind the turn. GLM writes none: the next role's tag is what the model samples. DeepSeek-V3's
template forgets it behind a single call. Both show when the conversation goes on.
"""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.probing.calls import ANSWER, NAME, OTHER_ARGUMENTS, QUESTION, REASONING, call_ids, tool_call

_CALLS = [tool_call(call_id=call_ids()[1]), tool_call(call_id=call_ids()[1], arguments=OTHER_ARGUMENTS)]
_RESULT = {"role": "tool", "content": "pong", "tool_call_id": call_ids()[1], "name": NAME}


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
        new = _RESULT if calls else QUESTION
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
        said = (
            [{"content": "", "tool_calls": [call]} for call in _CALLS]
            if calls
            else [{"content": ANSWER}, {"content": REASONING}]
        )
        ends = []
        for turn in said:
            messages = [QUESTION, {"role": "assistant", **turn}, *([] if new is None else [new])]
            try:
                ends.append(list(self._renderer.render_ids(messages, add_generation_prompt=new is not None)))
            except RendererError:
                return None
        same = common_prefix(reversed(ends[0]), reversed(ends[1]))
        return ends[0][len(ends[0]) - same :]
