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


def unwritten_stop(renderer: Any, calls: bool) -> int | None:
    """The stop of a turn that is rendered without one, with or without calls; ``None`` where nothing shows it."""
    stops = renderer.get_stop_token_ids()
    finished, going_on = _behind(renderer, calls), _behind(renderer, calls, _RESULT if calls else QUESTION)
    if finished is None or going_on is None or going_on[: len(finished)] != finished:
        return None
    behind = going_on[len(finished) :]
    if behind and behind[0] in stops:
        return behind[0]
    if calls:  # forgotten behind a call, where results follow it just as they follow a text and its stop
        text, going_on = _behind(renderer, False), _behind(renderer, False, _RESULT)
        return text[0] if text and text[0] in stops and going_on == text + behind else None
    return None


def _behind(renderer: Any, calls: bool, *new: dict[str, Any]) -> list[int] | None:
    """The ids behind what the turn says (its text, or its call's argument), whatever that is; ``None``: it is refused."""
    said = (
        [{"content": "", "tool_calls": [call]} for call in _CALLS] if calls else [{"content": ANSWER}, {"content": REASONING}]
    )
    ends = []
    for turn in said:
        try:
            ends.append(renderer.render_ids([QUESTION, {"role": "assistant", **turn}, *new], add_generation_prompt=bool(new)))
        except RendererError:
            return None
    same = common_prefix(reversed(ends[0]), reversed(ends[1]))
    return list(ends[0][len(ends[0]) - same :])
